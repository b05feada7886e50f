"""The only module that imports numba.cuda, and what its kernels share.

numba-cuda is in maintenance mode: whatever follows it will be swapped in here. Nothing is compiled
on import, so that a machine without a driver can import every kernel. Under NUMBA_ENABLE_CUDASIM=1
the kernels run in the simulator, which knows neither types nor warps: device functions are then
plain Python, and a warp is synchronised through its block, so every thread of a block must reach a
`warp_sync` equally often.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
from numba import config, cuda, types
from numba.cuda.extending import intrinsic

from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.compilation import keep_code, name_after_sources

__all__ = [
    "BLOCK_THREADS",
    "SIMULATED",
    "WARP_THREADS",
    "Kernel",
    "Stream",
    "atomic_add",
    "cuda",
    "device_function",
    "flat_view",
    "free_nothing_at_exit",
    "intrinsic",
    "is_aligned",
    "kernel",
    "launch",
    "load_only",
    "on_stream",
    "types",
    "warp_sync",
]

# numba-cuda has no types for its own objects.
Kernel: TypeAlias = Any
Stream: TypeAlias = Any

SIMULATED = bool(config.ENABLE_CUDASIM)
WARP_THREADS = 32

# A simulated thread is a Python thread: a few of them prove what many would.
BLOCK_THREADS = 8 if SIMULATED else 128
_MIN_BLOCKS = 1 if SIMULATED else 128  # below, numba-cuda warns of an idle device
_MAX_BLOCKS = 2 if SIMULATED else 16384  # beyond, the grid-stride loops take over

_simulated_adds = threading.Lock()
_stream: ContextVar[Stream] = ContextVar("kvaudit_cuda_stream", default=0)
_loads_only: ContextVar[bool] = ContextVar("kvaudit_cuda_loads_only", default=False)


def device_function(body: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a scalar body for device code.

    It is inlined: a call would make the compilation ask for the current device.
    """
    return body if SIMULATED else cuda.jit(device=True, inline="always")(body)


def kernel(body: Callable[..., None] | None = None, *, max_registers: int | None = None) -> Kernel:
    """Compile a kernel when it is first launched, and keep its code on disk, if it can be.

    Args:
        body: the kernel; None where the decorator is called for its option.
        max_registers: registers of a thread, so that enough warps fit; None = as many as it takes.
    """
    if body is None:
        return partial(kernel, max_registers=max_registers)
    if SIMULATED:
        return cuda.jit(body)
    name_after_sources(body)
    compiled_kernel = cuda.jit(body, max_registers=max_registers)
    keep_code(compiled_kernel)
    return compiled_kernel


def _block_sync() -> None:
    # The simulated thread itself: the `cuda` of this module is not the one inside a kernel.
    threading.current_thread().syncthreads()  # type: ignore[attr-defined] # a simulator's thread


def _warp_sync() -> None:
    cuda.syncwarp()


warp_sync = _block_sync if SIMULATED else device_function(_warp_sync)


def _locked_add(array: KernelArray, index: int, amount: int) -> Any:  # noqa: ANN401 - its dtype's
    with _simulated_adds:
        before = array[index]
        array[index] += amount
    return before


def _atomic_add(array: KernelArray, index: int, amount: int) -> Any:  # noqa: ANN401 - its dtype's
    return cuda.atomic.add(array, index, amount)


# For device functions that kernels of other modules call: see `_block_sync`.
atomic_add = _locked_add if SIMULATED else device_function(_atomic_add)


@cache
def free_nothing_at_exit(device_idx: int) -> None:
    """Leave what a device holds when the process ends to the driver, which frees all of it.

    numba-cuda unloads a kernel at exit once for each device that ran it, though they share what is
    loaded: the second time ends the process by a signal, whatever its outcome was.

    Args:
        device_idx: its number, of a device that kernels are about to run on.
    """
    if not SIMULATED:
        with cuda.gpus[device_idx]:
            deferred = cuda.current_context().defer_cleanup()
        # Called before numba-cuda's own: the last one registered is the first.
        atexit.register(deferred.__enter__)


@contextmanager
def on_stream(stream: Stream) -> Iterator[None]:
    """Launches of this context are enqueued on a stream of numba-cuda's; 0 is the default one."""
    token = _stream.set(stream)
    try:
        yield
    finally:
        _stream.reset(token)


@contextmanager
def load_only() -> Iterator[None]:
    """Launches of this context compile and load their kernels, and enqueue nothing.

    Neither is allowed while a stream is captured into a graph.
    """
    token = _loads_only.set(True)
    try:
        yield
    finally:
        _loads_only.reset(token)


def launch(
    compiled_kernel: Kernel,
    arguments: tuple[Any, ...],
    *,
    num_items: int,
    block_threads: int = BLOCK_THREADS,
    shared_bytes: int = 0,
) -> None:
    """Enqueue a grid-stride kernel on the current stream.

    Args:
        compiled_kernel: what `kernel` returned.
        arguments: its arguments, in order.
        num_items: threads that have something to do; any number, 0 too.
        block_threads: threads a block.
        shared_bytes: dynamic shared memory a block.
    """
    if _loads_only.get():
        _load(compiled_kernel, arguments)
        return
    num_blocks = min(max(-(-num_items // block_threads), _MIN_BLOCKS), _MAX_BLOCKS)
    compiled_kernel[num_blocks, block_threads, _stream.get(), shared_bytes](*arguments)


def _load(compiled_kernel: Kernel, arguments: tuple[Any, ...]) -> None:
    """Compile a kernel for the types of its arguments, and load it on the current device."""
    if not SIMULATED:
        signature = tuple(compiled_kernel.typeof_pyval(argument) for argument in arguments)
        compiled_kernel.compile(signature).bind()


def _address(array: KernelArray) -> int:
    if SIMULATED:
        return int(array.ctypes.data)
    return int(array.__cuda_array_interface__["data"][0] or 0)


def is_aligned(array: KernelArray, num_bytes: int) -> bool:
    """Whether a two-dimensional device array starts, and its rows follow, at multiples of num_bytes."""
    return _address(array) % num_bytes == 0 and array.strides[0] % num_bytes == 0


def flat_view(array: KernelArray, dtype: type[np.generic]) -> KernelArray:
    """A device array's memory from its first to its last byte, gaps between rows included.

    One layout for all strides, so that a kernel is compiled once.

    Args:
        array: shape [num_rows, row_bytes], uint8, stride(1) = 1.
        dtype: element type of the view; the array is aligned to it.

    Returns:
        shape [1, whole elements], C-contiguous; it keeps the array alive.
    """
    item_bytes = np.dtype(dtype).itemsize
    num_rows, row_bytes = array.shape
    span_bytes = (num_rows - 1) * array.strides[0] + row_bytes if num_rows else 0
    num_elements = span_bytes // item_bytes
    if num_elements == 0:
        return _empty_view(dtype)
    if SIMULATED:
        memory: KernelArray = getattr(array, "_ary", array)
        used_bytes = num_elements * item_bytes
        return np.lib.stride_tricks.as_strided(memory, (1, used_bytes), (used_bytes, 1)).view(dtype)
    description = {
        "shape": (1, num_elements),
        "typestr": np.dtype(dtype).str,
        "data": (_address(array), False),
        "version": 3,
    }
    return cuda.from_cuda_array_interface(description, owner=array)


def _empty_view(dtype: type[np.generic]) -> KernelArray:
    """The view of memory without a whole element, shape [1, 0]."""
    return cuda.device_array((1, 0), dtype=dtype)
