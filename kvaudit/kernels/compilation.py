"""How the CPU kernels are compiled and cached, and whether that has happened already.

numba's cache follows the one file that a kernel stands in, but a kernel is made of bodies from
several files. `compiled` therefore drops a kernel's cached code when any file of `kernels` is newer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Protocol

from numba import njit


class _Stats(Protocol):
    cache_path: str


class CpuKernel(Protocol):
    """What numba makes of a function, as far as it is used here."""

    py_func: FunctionType
    stats: _Stats
    __call__: Callable[..., Any]


@cache
def _newest_source_ns() -> int:
    """When the newest file of the package was modified."""
    return max(source.stat().st_mtime_ns for source in Path(__file__).parent.rglob("*.py"))


def _cache_indices(kernel: CpuKernel) -> list[Path]:
    """The index files of a kernel's cached code for this Python version; at most one."""
    function = kernel.py_func
    code = function.__code__
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    stem = f"{Path(code.co_filename).stem}.{function.__qualname__}-{code.co_firstlineno}"
    return list(Path(kernel.stats.cache_path).glob(f"{stem}.{python}*.nbi"))


def compiled(function: Callable[..., Any]) -> CpuKernel:
    """A kernel that releases the GIL and whose compiled code is kept on disk."""
    kernel: CpuKernel = njit(nogil=True, cache=True)(function)
    drop_stale_code(kernel)
    return kernel


def drop_stale_code(kernel: CpuKernel) -> None:
    """Forget a kernel's cached code when any file of `kernels` is newer; a device kernel's too."""
    for index in _cache_indices(kernel):
        if index.stat().st_mtime_ns < _newest_source_ns():
            index.unlink(missing_ok=True)


def are_cached(kernels: Iterable[CpuKernel]) -> bool:
    """Whether all kernels have compiled code on disk; if not, first calls take seconds."""
    return all(_cache_indices(kernel) for kernel in kernels)
