"""`kvaudit verify` in the process of the test, on the reference backend: nothing to compile."""

from __future__ import annotations

import pytest

from kvaudit.cli.entry import run

ON_REFERENCE = ("--backend", "reference")


def verify(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    """Run in this process; returns (code, stdout, stderr)."""
    code = run(["verify", *ON_REFERENCE, *map(str, args)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err
