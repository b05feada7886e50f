"""The hint is in the machine code, and changes nothing."""

from __future__ import annotations

import platform

import numpy as np
import pytest
from numba import njit

from kvaudit.kernels.prefetch import prefetch_row


@njit
def sum_backwards(rows):
    total = np.uint64(0)
    for row_idx in range(rows.shape[0] - 1, -1, -1):
        prefetch_row(rows, max(row_idx - 2, 0))
        total += rows[row_idx, 0]
    return total


@pytest.mark.parametrize("width", [1, 4, 7])
def test_a_hint_leaves_every_value_as_it_was(width):
    rows = np.random.default_rng(3).integers(0, 1 << 40, (50, width)).astype(np.uint64)
    rows.flags.writeable = False
    kept = rows.copy()
    assert sum_backwards(rows) == rows[:, 0].sum()
    np.testing.assert_array_equal(rows, kept)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction has another name")
def test_the_hint_is_compiled_to_an_instruction():
    sum_backwards(np.zeros((3, 4), dtype=np.uint64))
    (assembly,) = list(sum_backwards.inspect_asm().values())[-1:]
    assert "prefetcht0" in assembly
