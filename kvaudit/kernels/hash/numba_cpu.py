"""`hash` on the CPU, and the compiled bodies that the other CPU kernels call.

Rows of slot_indices are shared out among threads; each entry reads one record.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit.kernels.array_forms import read_only, widened_rows
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.hash import scalar
from kvaudit.kernels.row_threads import run_rows

_ROWS_PER_TASK = 1 << 15

splitmix64 = njit(scalar.splitmix64)
splitmix64_mix3 = njit(scalar.make_splitmix64_mix3(splitmix64))
slot_hash = njit(scalar.make_slot_hash(splitmix64_mix3))


@compiled
def _hash_rows(canary_records, slot_indices, slot_hashes, first_row, last_row):
    for entry in range(first_row, last_row):
        slot_hashes[entry] = slot_hash(canary_records, slot_indices[entry])


KERNELS = (_hash_rows,)


def launch_hash(
    canary_records: NDArray[np.uint64],
    slot_indices: NDArray[np.int64],
    slot_hashes: NDArray[np.uint64],
) -> None:
    """The contract of `kvaudit.kernels.hash`."""
    canary_records = widened_rows(canary_records)
    slot_indices = read_only(slot_indices)

    def hash_rows(first_row: int, last_row: int) -> None:
        _hash_rows(canary_records, slot_indices, slot_hashes, first_row, last_row)

    run_rows(hash_rows, slot_indices.shape[0], rows_per_task=_ROWS_PER_TASK)
