"""`fold` on the CPU of slots that lie in pieces: rows of slot_indices are shared out among threads."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from kvaudit.constants import WORD_BYTES
from kvaudit.kernels.array_forms import read_only
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.hash.numba_cpu import splitmix64
from kvaudit.kernels.row_threads import run_rows

_BYTES_PER_TASK = 1 << 20

_ZERO = np.uint64(0)


@compiled
def _fold_pieces(
    source_words,
    slot_indices,
    source_hashes,
    num_rows,
    row_words,
    num_pieces,
    piece_stride,
    piece_words,
    first,
    last,
):
    """Entries [first, last) of rows that begin row_words after one another in source_words."""
    for entry in range(first, last):
        slot_idx = slot_indices[entry]
        chain = _ZERO
        if slot_idx >= 0 and slot_idx < num_rows:
            for piece in range(num_pieces):
                start = slot_idx * row_words + piece * piece_stride
                for word_idx in range(start, start + piece_words):
                    chain = splitmix64(chain ^ source_words[word_idx])
        source_hashes[entry] = chain


KERNELS = (_fold_pieces,)


def launch_fold_pieces(
    source_bytes: NDArray[np.uint8],
    slot_indices: NDArray[np.int64],
    source_hashes: NDArray[np.uint64],
    num_pieces: int,
    piece_stride: int,
    piece_bytes: int,
) -> None:
    """The contract of `kvaudit.kernels.fold`, slots in pieces."""
    slot_indices = read_only(slot_indices)
    num_rows, row_bytes = source_bytes.shape
    step_bytes = source_bytes.strides[0] if num_rows > 1 else 0
    num_words = ((num_rows - 1) * step_bytes + row_bytes) // WORD_BYTES if num_rows else 0
    # From the first row's first byte to the last row's last one, however rows overlap.
    flat = as_strided(source_bytes, (num_words * WORD_BYTES,), (1,), writeable=False)
    source_words = flat.view(np.uint64)
    sizes = (step_bytes, piece_stride, piece_bytes)
    row_words, piece_stride_words, piece_words = (size // WORD_BYTES for size in sizes)

    def fold_rows(first: int, last: int) -> None:
        _fold_pieces(
            source_words,
            slot_indices,
            source_hashes,
            num_rows,
            row_words,
            num_pieces,
            piece_stride_words,
            piece_words,
            first,
            last,
        )

    rows_per_task = max(1, _BYTES_PER_TASK // max(1, num_pieces * piece_bytes))
    run_rows(fold_rows, slot_indices.shape[0], rows_per_task=rows_per_task)
