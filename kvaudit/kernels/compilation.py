"""How kernels are compiled and kept, and whether that has happened already.

numba keeps code for as long as the one file that a kernel stands in is the same, but a kernel is
made of bodies and constants from several files. All of them together therefore give the compiled
code its name: code of other sources is never found, whatever the files' times say.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final, Protocol

from numba import njit

from kvaudit.errors import BackendError

_DIGEST_DIGITS: Final = 12


class _Stats(Protocol):
    cache_path: str | None


class _Cache(Protocol):
    load_overload: Callable[..., Any]

    def flush(self) -> None: ...


class CompiledKernel(Protocol):
    """What numba and numba-cuda make of a function, as far as it is used here."""

    py_func: FunctionType
    overloads: Mapping[Any, Any]
    stats: _Stats
    _cache: _Cache
    __call__: Callable[..., Any]

    def enable_caching(self) -> None: ...  # noqa: D102 - numba's


@cache
def _sources_digest() -> str:
    """A digest of every file that kernels are made of."""
    kernels = Path(__file__).parent
    digest = hashlib.sha256()
    for source in [*sorted(kernels.rglob("*.py")), kernels.parent / "constants.py"]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:_DIGEST_DIGITS]


def compiled(function: Callable[..., Any]) -> CompiledKernel:
    """A kernel that releases the GIL and whose compiled code is kept on disk, if it can be."""
    name_after_sources(function)
    kernel: CompiledKernel = njit(nogil=True)(function)
    keep_code(kernel)
    return kernel


def name_after_sources(function: Callable[..., Any]) -> None:
    """Put the digest of the sources into the name by which a kernel's code is kept."""
    function.__qualname__ += f"_{_sources_digest()}"


def keep_code(kernel: CompiledKernel) -> None:
    """Keep a kernel's code on disk, and drop what was kept of it when the sources were others.

    Where no folder can be written to, code is compiled in every process anew.
    """
    # numba's own error of a cache without a folder; see `cache_folder` for where it looks.
    with suppress(RuntimeError):
        kernel.enable_caching()
    _compile_what_is_torn(kernel)
    for stale in _kept_files(kernel, "?" * _DIGEST_DIGITS, ".nb[ic]"):
        if f"_{_sources_digest()}-" not in stale.name:
            with suppress(OSError):
                stale.unlink()


def _compile_what_is_torn(kernel: CompiledKernel) -> None:
    """Let a kernel be compiled anew where what is kept of it cannot be read.

    A power loss leaves numba's files short or full of zeros: they are renamed into place before
    they are on the disk.
    """
    cache = kernel._cache  # noqa: SLF001 - numba has no public way to it
    load = cache.load_overload

    def load_or_forget(*args: object) -> object:
        try:
            return load(*args)
        except Exception as error:  # noqa: BLE001 - what is torn raises anything when it is read
            try:
                cache.flush()
            except OSError:
                folder = cache_folder(kernel)
                raise BackendError(
                    f"{folder}: the compiled code that is kept there is torn",
                    hint=f"remove {folder}",
                ) from error
            return None

    cache.load_overload = load_or_forget


def cache_folder(kernel: CompiledKernel) -> Path | None:
    """Where a kernel's code is kept: NUMBA_CACHE_DIR, beside the source or in the user's cache.

    None where no folder can be written to.
    """
    folder = kernel.stats.cache_path
    return None if folder is None else Path(folder)


def needs_compilation(kernels: Iterable[CompiledKernel]) -> bool:
    """Whether a kernel has no compiled code, here or on disk: its first call then takes seconds."""
    python = f".py{sys.version_info.major}{sys.version_info.minor}"
    return any(
        not kernel.overloads and not _kept_files(kernel, _sources_digest(), f"{python}*.nbi")
        for kernel in kernels
    )


def _kept_files(kernel: CompiledKernel, digest: str, ending: str) -> list[Path]:
    """A kernel's files on disk; numba names them by module, name, line and Python version."""
    folder = cache_folder(kernel)
    if folder is None:
        return []
    code = kernel.py_func.__code__
    name = kernel.py_func.__qualname__.removesuffix(_sources_digest())
    return list(folder.glob(f"{Path(code.co_filename).stem}.{name}{digest}-*{ending}"))
