"""Where a slot's bytes stand and what a word of them is, compiled by njit and cuda.jit alike."""

from __future__ import annotations

import numpy as np

from kvaudit import constants

_WORD_BYTES = constants.WORD_BYTES
_BITS_PER_BYTE = np.uint64(8)


def slot_column(slot_idx, page_size, num_bytes_per_token):
    """First byte of a slot within its row `slot_idx // page_size`; all int64."""
    return (slot_idx % page_size) * num_bytes_per_token


def bytes_word(source_bytes, row, column, num_bytes):
    """The little-endian word of up to 8 bytes at [row, column], zero-padded; uint64.

    Reads byte by byte: for unaligned sources and for the last word of a ragged one.
    """
    word = np.uint64(0)
    for byte_idx in range(min(num_bytes, _WORD_BYTES)):
        byte = np.uint64(source_bytes[row, column + byte_idx])
        word |= byte << (np.uint64(byte_idx) * _BITS_PER_BYTE)
    return word
