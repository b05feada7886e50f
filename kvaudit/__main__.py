"""`python -m kvaudit`: the same program as the console script."""

from __future__ import annotations

if __name__ == "__main__":
    from kvaudit.cli.entry import main

    main()
