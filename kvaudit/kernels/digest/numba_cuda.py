"""`digest` on a CUDA device: blocks in parallel, then a short serial chain a chunk.

xxh3 keeps eight lanes of 64 bits. A block of 1 KiB adds to each lane a sum that does not depend on
what the lane holds; between blocks the lanes are scrambled. So the sums of all blocks are made
first, a thread a block and lane, at the pace of memory; then eight threads a chunk go through its
sums, which are 16 times fewer bytes:

    content      block 0 | block 1 | .. | last block      1 KiB each
    block sums   s0        s1             sn               8 lanes each, in parallel
    lanes        + s0, scramble, + s1, scramble, .., + sn  serial, 8 threads

The sums of some blocks are read ahead of the chain.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import (
    WARP_THREADS,
    cuda,
    device_function,
    kernel,
    launch,
    types,
    warp_sync,
)
from kvaudit.kernels.digest import numbers

_LANES = numbers.LANES
_STRIPE_WORDS = numbers.STRIPE_WORDS
_BLOCK_STRIPES = numbers.BLOCK_STRIPES
_BLOCK_WORDS = numbers.BLOCK_WORDS
_BLOCK_BYTES = constants.WORD_BYTES * _BLOCK_WORDS
_SECRET = numbers.SECRET
_SCRAMBLE_KEYS = numbers.SCRAMBLE_KEYS
_LAST_STRIPE_KEYS = numbers.LAST_STRIPE_KEYS
_MERGE_KEYS = numbers.MERGE_KEYS
_INITIAL_LANES = numbers.INITIAL_LANES
_PRIME_32 = np.uint64(numbers.PRIME_32)
_PRIME_64 = np.uint64(numbers.PRIME_64)
_AVALANCHE = np.uint64(numbers.AVALANCHE)

_CHUNKS_PER_WARP = WARP_THREADS // _LANES
_READ_AHEAD = 16
_LOW_HALF = np.uint64(0xFFFF) << np.uint64(16) | np.uint64(0xFFFF)
_HALF = np.uint64(32)
_ZERO = np.uint64(0)
_SCRAMBLE_SHIFT = np.uint64(47)
_AVALANCHE_SHIFT = np.uint64(37)


@device_function
def _scrambled(lane_value, lane):
    """A lane between two blocks."""
    lane_value ^= lane_value >> _SCRAMBLE_SHIFT
    return (lane_value ^ _SCRAMBLE_KEYS[lane]) * _PRIME_32


@device_function
def _folded_product(left, right):
    """Both halves of the 128-bit product, xored."""
    low_low = (left & _LOW_HALF) * (right & _LOW_HALF)
    high_low = (left >> _HALF) * (right & _LOW_HALF)
    low_high = (left & _LOW_HALF) * (right >> _HALF)
    high_high = (left >> _HALF) * (right >> _HALF)
    cross = (low_low >> _HALF) + (high_low & _LOW_HALF) + low_high
    upper = (high_low >> _HALF) + (cross >> _HALF) + high_high
    return upper ^ ((cross << _HALF) | (low_low & _LOW_HALF))


@device_function
def _merged(lanes, first_lane, num_bytes):
    """The digest of eight lanes."""
    digest = num_bytes * _PRIME_64
    for pair in range(0, _LANES, 2):
        digest += _folded_product(
            lanes[first_lane + pair] ^ _MERGE_KEYS[pair],
            lanes[first_lane + pair + 1] ^ _MERGE_KEYS[pair + 1],
        )
    digest = (digest ^ (digest >> _AVALANCHE_SHIFT)) * _AVALANCHE
    return digest ^ (digest >> _HALF)


@kernel
def _sum_blocks_kernel(content_words, block_sums, num_blocks, blocks_per_chunk):
    for item in range(cuda.grid(1), num_blocks * _LANES, cuda.gridsize(1)):
        block, lane = item // _LANES, item % _LANES
        is_last = block % blocks_per_chunk == blocks_per_chunk - 1
        total = _ZERO
        for stripe in range(_BLOCK_STRIPES):
            first_word = block * _BLOCK_WORDS + stripe * _STRIPE_WORDS
            key = _SECRET[stripe + lane]
            if is_last and stripe == _BLOCK_STRIPES - 1:
                key = _LAST_STRIPE_KEYS[lane]
            mixed = content_words[first_word + lane] ^ key
            total += content_words[first_word + (lane ^ 1)]
            total += (mixed & _LOW_HALF) * (mixed >> _HALF)
        block_sums[item] = total


@kernel
def _chain_blocks_kernel(block_sums, digests, blocks_per_chunk, chunk_bytes):
    thread_idx = cuda.threadIdx.x
    lane, chunk_in_warp = thread_idx % _LANES, thread_idx // _LANES
    lanes = cuda.shared.array(WARP_THREADS, types.uint64)
    sums = cuda.local.array(_READ_AHEAD, types.uint64)
    num_chunks = digests.shape[0]
    last_block = blocks_per_chunk - 1
    # Every thread of a block makes every trip: see `warp_sync`.
    for first_chunk in range(
        cuda.blockIdx.x * _CHUNKS_PER_WARP, num_chunks, cuda.gridDim.x * _CHUNKS_PER_WARP
    ):
        chunk = first_chunk + chunk_in_warp
        first_sum = min(chunk, num_chunks - 1) * blocks_per_chunk * _LANES + lane
        lane_value = _INITIAL_LANES[lane]
        for first_block in range(0, last_block, _READ_AHEAD):
            for ahead in range(_READ_AHEAD):
                block = min(first_block + ahead, last_block)
                sums[ahead] = block_sums[first_sum + block * _LANES]
            for ahead in range(_READ_AHEAD):
                if first_block + ahead < last_block:
                    lane_value = _scrambled(lane_value + sums[ahead], lane)
        lanes[thread_idx] = lane_value + block_sums[first_sum + last_block * _LANES]
        warp_sync()
        if lane == 0 and chunk < num_chunks:
            digests[chunk] = _merged(lanes, thread_idx, np.uint64(chunk_bytes))
        warp_sync()


KERNELS = (_sum_blocks_kernel, _chain_blocks_kernel)


def launch_digest(
    content_words: KernelArray, digests: KernelArray, block_sums: KernelArray, chunk_bytes: int
) -> None:
    """Enqueue `digest`; all arrays are on the device."""
    num_chunks, blocks_per_chunk = digests.shape[0], chunk_bytes // _BLOCK_BYTES
    num_blocks = num_chunks * blocks_per_chunk
    launch(
        _sum_blocks_kernel,
        (content_words, block_sums, num_blocks, blocks_per_chunk),
        num_items=num_blocks * _LANES,
    )
    launch(
        _chain_blocks_kernel,
        (block_sums, digests, blocks_per_chunk, chunk_bytes),
        num_items=num_chunks * _LANES,
        block_threads=WARP_THREADS,
    )
