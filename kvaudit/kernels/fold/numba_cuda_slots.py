"""What every thread of a device's folds does: which entries, where a slot is, its hash on its own.

A kernel takes a source as a flat view of its memory, shape [1, n], and its geometry, both in one
unit, words or bytes: number of slots, page size and its bits, row stride, slot stride, units read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kvaudit import constants
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.async_copy import load_pair
from kvaudit.kernels.cuda_module import device_function, flat_view, is_aligned
from kvaudit.kernels.fold import scalar
from kvaudit.kernels.hash.numba_cuda import splitmix64

WORD_BYTES = constants.WORD_BYTES
PAIR_WORDS = 2
PAIR_BYTES = PAIR_WORDS * WORD_BYTES
# Tiles of slots as short as these would be mostly empty: one thread reads all of a slot.
SHORT_BYTES = 2 * PAIR_BYTES
# Places in a geometry. Where a page is one slot, the slot stride counts for nothing, and is that of
# a slot's pieces.
NUM_SLOTS = 0
PIECE_STRIDE = 4
NUM_UNITS = 5
# What becomes of a slot's hash: it is stored, or combined with those of the sources before it.
STORED = 0
FIRST_COMBINED = 1
COMBINED = 2

_SINGLE_BYTE = 1
_NO_POWER_OF_TWO = -1
_NOWHERE = np.int64(-1)
_FIRST_SLOT = np.int64(0)
_ZERO = np.uint64(0)

_bytes_word = device_function(scalar.bytes_word)


class FlatSource(NamedTuple):
    """A source as kernels take it.

    Fields:
        alignment: its address and all its sizes are multiples of so many bytes.
        memory: shape [1, n]; uint64, or uint8 where the alignment is 1.
        geometry: as the kernels unpack it, in elements of memory.
    """

    alignment: int
    memory: KernelArray
    geometry: tuple[int, int, int, int, int, int]


def flat_source(
    source_bytes: KernelArray, layout: tuple[int, int, int], *, alignments: tuple[int, ...]
) -> FlatSource:
    """A source by the largest of some alignments that it has, or else byte by byte.

    Args:
        source_bytes: shape [num_rows, row_bytes], uint8.
        layout: page_size, num_bytes_per_token, read_bytes.
        alignments: multiples of WORD_BYTES that there are kernels for, the largest first.
    """
    page_size, num_bytes_per_token, read_bytes = layout
    num_slots = source_bytes.shape[0] * page_size
    sizes = (source_bytes.strides[0], num_bytes_per_token, read_bytes)
    # Byte by byte is also right where there is nothing to read.
    wholes = [
        each
        for each in alignments
        if num_slots > 0
        and read_bytes > 0
        and is_aligned(source_bytes, each)
        and all(size % each == 0 for size in sizes)
    ]
    alignment = wholes[0] if wholes else _SINGLE_BYTE
    dtype = np.uint64 if wholes else np.uint8
    row_stride, slot_stride, num_units = (size // np.dtype(dtype).itemsize for size in sizes)
    return FlatSource(
        alignment=alignment,
        memory=flat_view(source_bytes, dtype),
        geometry=(num_slots, page_size, bits_of(page_size), row_stride, slot_stride, num_units),
    )


def bits_of(size: int) -> int:
    """By how much a shift divides by a size; negative where it is no power of two."""
    return size.bit_length() - 1 if size.bit_count() == 1 else _NO_POWER_OF_TWO


def is_short(layout: tuple[int, int, int]) -> bool:
    """Whether a thread can read all of a slot as `short_words` does, given whole pairs of words."""
    page_size, _, read_bytes = layout
    return page_size.bit_count() == 1 and read_bytes <= SHORT_BYTES


@device_function
def num_active(slot_indices, num_valid, enable):
    """How many leading entries are folded; num_valid and enable may be of shape [0]."""
    num_entries = slot_indices.shape[0]
    if num_valid.shape[0] > 0:
        num_entries = min(max(num_valid[0], 0), num_entries)
    if enable.shape[0] > 0 and enable[0] == 0:
        num_entries = 0
    return num_entries


@device_function
def slot_start(slot_idx, geometry):
    """Where a slot starts, in the unit of the geometry; negative outside the source. int64."""
    num_slots, page_size, page_bits, row_stride, slot_stride, _ = geometry
    if slot_idx < 0 or slot_idx >= num_slots:
        return _NOWHERE
    page = slot_idx >> page_bits if page_bits >= 0 else slot_idx // page_size
    return page * row_stride + (slot_idx - page * page_size) * slot_stride


@device_function
def short_words(source_words, slot_idx, geometry):
    """The words of a slot of a source that `is_short`, as `short_hash` takes them.

    A slot outside the source reads the first one: a load behind no branch is sooner on its way.
    """
    num_slots, page_size, page_bits, row_words, slot_words, num_words = geometry
    place = slot_idx if slot_idx >= 0 and slot_idx < num_slots else _FIRST_SLOT
    page = place >> page_bits
    first = page * row_words + (place - page * page_size) * slot_words
    words = source_words[0]
    even, odd = load_pair(words, first)
    next_even = next_odd = _ZERO
    if num_words > PAIR_WORDS:
        next_even, next_odd = load_pair(words, first + PAIR_WORDS)
    return even, odd, next_even, next_odd


@device_function
def short_hash(words, slot_idx, geometry):
    """The source hash of a slot from its `short_words`; 0 outside the source."""
    if slot_idx < 0 or slot_idx >= geometry[NUM_SLOTS]:
        return _ZERO
    even, odd, next_even, next_odd = words
    source_hash = splitmix64(splitmix64(even) ^ odd)
    if geometry[NUM_UNITS] > PAIR_WORDS:
        source_hash = splitmix64(splitmix64(source_hash ^ next_even) ^ next_odd)
    return source_hash


@device_function
def bytes_hash(source_bytes, slot_idx, geometry):
    """The source hash of a slot of any alignment and size; 0 outside the source."""
    start = slot_start(slot_idx, geometry)
    source_hash = _ZERO
    if start >= 0:
        read_bytes = geometry[NUM_UNITS]
        for byte_idx in range(0, read_bytes, WORD_BYTES):
            word = _bytes_word(source_bytes, 0, start + byte_idx, read_bytes - byte_idx)
            source_hash = splitmix64(source_hash ^ word)
    return source_hash


@device_function
def store_hash(hashes, entry_idx, source_hash, outcome):
    """Store an entry's source hash, or what it makes of the hashes of the sources before it."""
    at = np.uint64(entry_idx)
    if outcome == COMBINED:
        source_hash = splitmix64(hashes[at] ^ source_hash)
    elif outcome == FIRST_COMBINED:
        source_hash = splitmix64(source_hash)
    hashes[at] = source_hash
