"""Renews the screens in the documentation, and the package's copy of the page of rules.

A screen is what a command prints, pasted under its marker:

    <!-- screen: verify examples/smollm2-clean -->
    ```text
    (what `kvaudit verify examples/smollm2-clean` prints)
    ```

Run `python docs/update_screens.py` after a change of output; `tests/test_docs.py` compares.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RULES = ROOT / "docs" / "rules.md"
# `kvaudit explain` reads the page: an installed package has no documentation beside it.
RULES_COPY = ROOT / "kvaudit" / "importers" / "rules.md"
PAGES = (ROOT / "README.md", ROOT / "docs" / "cli.md")
SCREEN = re.compile(r"<!-- screen: (?P<command>.+?) -->\n```text\n(?P<text>.*?)```\n", re.DOTALL)


def screen(command: str) -> str:
    """What `kvaudit COMMAND` prints on stdout, piped, at width 80."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KVAUDIT_")
    }
    done = subprocess.run(  # noqa: S603 - the command stands in our own pages
        [sys.executable, "-m", "kvaudit", *shlex.split(command)],
        cwd=ROOT,
        env={**environment, "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    return done.stdout


def settled(text: str) -> str:
    """A screen without the two lines that tell of the machine and its speed."""
    return re.sub(r"^(backend|self-check) .*$", r"\1", text, flags=re.MULTILINE)


def renewed(page: str) -> str:
    """A page with every screen that says something else than its command replaced."""

    def renew(found: re.Match[str]) -> str:
        now = screen(found["command"])
        if settled(now) == settled(found["text"]):
            return found[0]
        return f"<!-- screen: {found['command']} -->\n```text\n{now}```\n"

    return SCREEN.sub(renew, page)


def main() -> None:
    """Rewrite the pages and the copy in place."""
    RULES_COPY.write_bytes(RULES.read_bytes())
    for path in PAGES:
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
