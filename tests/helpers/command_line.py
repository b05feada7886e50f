"""The program as a user's shell starts it: a process of its own, in a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Colour, width and options must come from the test; everything else, such as PATH, may stay.
_LEFT_OUT = ("KVAUDIT_", "NUMBA_ENABLE_CUDASIM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")


def environment(**changes: str) -> dict[str, str]:
    """The environment of a forked run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


def kvaudit(*args: object, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run one command line to its end.

    Args:
        *args: the command and its options.
        **changes: variables of its environment.
    """
    return python("-m", "kvaudit", *args, **changes)


def python(*args: object, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of the tests to its end, from the root of the repository."""
    return subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=ROOT,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
