"""How fast a device reads and writes its memory: the denominators of a benchmark.

Grid-stride, 16-byte loads, several under way in every thread; which launch shape is the fastest is
measured, since a slow yardstick would flatter every kernel.
"""

from __future__ import annotations

import numpy as np

from kvaudit.bench.kernels.load_pair import load_pair
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import BLOCK_THREADS, SIMULATED, Kernel, cuda, kernel

_ZERO = np.uint64(0)
# Nothing that is read folds to it but by chance; the store keeps the loads from being dropped.
_NEVER = np.uint64(0x5EED_5EED_5EED_5EED)
_PAIR_WORDS = 2
_LOADS_PER_TRIP = 4

# (blocks a multiprocessor, threads a block).
SHAPES = (
    ((1, BLOCK_THREADS),)
    if SIMULATED
    else ((2, 1024), (4, 512), (8, 256), (16, 128), (16, 256), (32, 256))
)


@kernel
def _read_kernel(words, sink):
    num_pairs = words.shape[0] // _PAIR_WORDS
    step = cuda.gridsize(1)
    folded = _ZERO
    pair_idx = cuda.grid(1)
    while pair_idx + (_LOADS_PER_TRIP - 1) * step < num_pairs:
        a, b = load_pair(words, _PAIR_WORDS * pair_idx)
        c, d = load_pair(words, _PAIR_WORDS * (pair_idx + step))
        e, f = load_pair(words, _PAIR_WORDS * (pair_idx + 2 * step))
        g, h = load_pair(words, _PAIR_WORDS * (pair_idx + 3 * step))
        folded ^= a ^ b ^ c ^ d ^ e ^ f ^ g ^ h
        pair_idx += _LOADS_PER_TRIP * step
    while pair_idx < num_pairs:
        a, b = load_pair(words, _PAIR_WORDS * pair_idx)
        folded ^= a ^ b
        pair_idx += step
    if folded == _NEVER:
        sink[0] = folded


@kernel
def _fill_kernel(words, value):
    for word_idx in range(cuda.grid(1), words.shape[0], cuda.gridsize(1)):
        words[word_idx] = value


def _grid(shape: tuple[int, int]) -> tuple[int, int]:
    blocks_per_multiprocessor, block_threads = shape
    multiprocessors = 1 if SIMULATED else cuda.get_current_device().MULTIPROCESSOR_COUNT
    return blocks_per_multiprocessor * multiprocessors, block_threads


def launch_read(words: KernelArray, sink: KernelArray, shape: tuple[int, int]) -> None:
    """Enqueue a read of all words.

    Args:
        words: shape [n], uint64, n even, 16-byte aligned.
        sink: shape [1], uint64; not written.
        shape: one of SHAPES.
    """
    _launched(_read_kernel, (words, sink), shape)


def launch_fill(words: KernelArray, value: int, shape: tuple[int, int]) -> None:
    """Enqueue a write of all words.

    Args:
        words: shape [n], uint64.
        value: what they become.
        shape: one of SHAPES.
    """
    _launched(_fill_kernel, (words, np.uint64(value)), shape)


def _launched(
    compiled_kernel: Kernel, arguments: tuple[KernelArray, KernelArray], shape: tuple[int, int]
) -> None:
    compiled_kernel[_grid(shape)](*arguments)
