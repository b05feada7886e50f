"""A copy of the package, to change its sources or to take its caches away."""

from __future__ import annotations

import shutil
from pathlib import Path

import kvaudit

_NOWHERE = "/dev/null/nowhere"


def copied_package(folder: Path) -> Path:
    """The package's files in a folder of their own, for PYTHONPATH; returns the package's folder."""
    package = folder / "copy" / "kvaudit"
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(Path(kvaudit.__file__).parent, package, ignore=ignored))


def blocked_cache(folder: Path) -> dict[str, str]:
    """Variables of a process in which no folder for compiled code can be written to.

    Files stand where numba would make its folders: modes would not stop a superuser. `folder`
    holds the copied package and what else the process compiles.
    """
    package = copied_package(folder)
    for source_folder in {source.parent for source in folder.rglob("*.py")}:
        (source_folder / "__pycache__").touch()
    return {
        "PYTHONPATH": str(package.parent),
        "NUMBA_CACHE_DIR": _NOWHERE,
        "XDG_CACHE_HOME": _NOWHERE,
        "HOME": _NOWHERE,
    }
