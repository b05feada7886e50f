"""Arrays enter the CPU kernels in one form, without copies where there is nothing to change."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from kvaudit.kernels.array_forms import frozen, read_only, widened_rows
from tests.kernels.implementations import CPU
from tests.kernels.launches import outcome, verify_launch, write_launch


def test_frozen_view_keeps_its_strides():
    wide = np.zeros((4, 64), dtype=np.uint8)
    view = frozen(wide[:, 16:48])
    assert view.strides == (64, 1)
    assert np.shares_memory(view, wide)
    assert not view.flags.writeable
    assert wide.flags.writeable


def test_read_only_view_shares_memory_and_cannot_be_written():
    array = np.arange(5)
    view = read_only(array)
    assert np.shares_memory(view, array)
    assert not view.flags.writeable
    assert array.flags.writeable


def test_read_only_packs_a_strided_array():
    packed = read_only(np.arange(10)[::2])
    assert packed.flags.c_contiguous
    assert packed.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("rows", [np.arange(12).reshape(3, 4), frozen(np.arange(12).reshape(3, 4))])
def test_packed_rows_stay_as_they_are(rows):
    wide = widened_rows(rows)
    assert np.shares_memory(wide, rows)
    assert wide.tolist() == rows.tolist()
    assert not wide.flags.writeable


def test_strided_rows_are_widened_in_place():
    memory = np.arange(18).reshape(3, 6)
    wide = widened_rows(memory[:, 1:5])
    assert wide.flags.c_contiguous
    assert np.shares_memory(wide, memory)
    assert wide[:, :4].tolist() == memory[:, 1:5].tolist()


def test_writable_rows_are_written_through():
    memory = np.zeros((3, 6), dtype=np.int64)
    widened_rows(memory[:, :4], writeable=True)[2, 3] = 9
    assert memory[2, 3] == 9


@pytest.mark.parametrize(
    "rows",
    [
        as_strided(np.arange(4), shape=(3, 4), strides=(0, 8)),
        as_strided(np.arange(6), shape=(3, 4), strides=(8, 8)),
        np.arange(12).reshape(3, 4)[::-1],
    ],
    ids=["repeated", "overlapping", "descending"],
)
def test_rows_that_repeat_overlap_or_descend_are_copied(rows):
    wide = widened_rows(rows)
    assert wide.flags.c_contiguous
    assert wide.tolist() == rows.tolist()


@pytest.mark.parametrize("num_rows", [0, 1])
def test_few_rows_of_any_stride_are_contiguous(num_rows):
    rows = np.arange(20).reshape(4, 5)[:num_rows, :3]
    wide = widened_rows(rows)
    assert wide.flags.c_contiguous
    assert wide.tolist() == rows.tolist()


@pytest.mark.parametrize("op", ["fold", "verify", "write"])
def test_every_cpu_kernel_is_compiled_once_whatever_the_arrays(op):
    wide = np.zeros((9, 6), dtype=np.uint64)
    for records in (wide[:, :4].copy(), wide, wide[:, :4]):
        write = write_launch(records=records, tokens=[5, 6], positions=[0, 1], slots=[1, 2])
        verify = verify_launch(records=records, slots=[1, 2], prevs=[-1, 1])
        for launch in (write, verify):
            outcome(CPU, "write" if launch is write else "verify", launch)
        CPU.run("verify", **verify | {"canary_records": frozen(records)})
    for source in (wide.view(np.uint8), frozen(wide.view(np.uint8)), wide[:, :4].view(np.uint8)):
        slots, hashes = np.arange(9), np.zeros(9, dtype=np.uint64)
        geometry = {"page_size": 1, "num_bytes_per_token": 32, "read_bytes": 32}
        CPU.run("fold", source_bytes=source, slot_indices=slots, source_hashes=hashes, **geometry)
    kernels = importlib.import_module(f"kvaudit.kernels.{op}.numba_cpu").KERNELS
    assert max(len(kernel.signatures) for kernel in kernels) == 1
