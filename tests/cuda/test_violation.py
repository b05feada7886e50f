"""`violation.cuh`: the ring fills once and counts on, whoever appends."""

from __future__ import annotations

import ctypes

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import (
    MASK64,
    RECORD_WORDS,
    VIOLATION_REASON_BITS,
    VIOLATION_SLOT,
    FailReason,
    LaunchTag,
)
from kvaudit.kernels.verify.reference import append_row
from tests.helpers.cpp_headers import ON_HOST_THREADS, Violation, host_launches, launch_of
from tests.kernels.launches import Arguments, arguments, ring, verify_launch

WORD = st.integers(0, MASK64)
INT32_MAX = 2**31 - 1


def launch_into(ring_capacity: int, write_index: int) -> Arguments:
    return arguments(
        violation_ring=ring(ring_capacity),
        violation_write_index=[write_index],
        slot_run_counter=[0],
        kernel_run_counter=[0],
        launch_tag=int(LaunchTag.SWEEP_V_SWA),
    )


def append(launch: Arguments, violation: Violation) -> None:
    structure = launch_of(launch)
    host_launches().append_violation(ctypes.byref(structure), ctypes.byref(violation))


@given(
    rows=st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), *[WORD] * 5, st.integers(0, 2**32 - 1)),
        max_size=5,
    ),
    ring_capacity=st.integers(0, 4),
    write_index=st.sampled_from([0, 1, -1, -3, 4, INT32_MAX, -INT32_MAX - 1]),
)
def test_appended_rows_are_those_of_the_reference(rows, ring_capacity, write_index):
    """Also when the index starts behind the ring, below it, or where int32 ends."""
    launch, wanted = (launch_into(ring_capacity, write_index) for _ in range(2))
    for row in rows:
        append(launch, Violation(*row))
        row_and_tag = (int(LaunchTag.SWEEP_V_SWA), *row)
        append_row(wanted["violation_ring"], wanted["violation_write_index"], row_and_tag)
    np.testing.assert_array_equal(launch["violation_ring"], wanted["violation_ring"])
    assert launch["violation_write_index"] == wanted["violation_write_index"]


def test_threads_that_append_at_once_take_a_row_each_and_lose_no_count():
    """Every entry is wrong, so that the threads do little else."""
    num_entries, capacity, num_launches = 200_000, 150_000, 10
    slots = np.arange(num_entries, dtype=np.int64)
    launch = verify_launch(
        records=[[0] * RECORD_WORDS],
        slots=slots + 1,
        prevs=slots,
        violation_ring=ring(capacity),
    )
    for _ in range(num_launches):
        ON_HOST_THREADS.run("verify", **launch)
    assert launch["violation_write_index"].tolist() == [num_launches * num_entries]
    assert launch["slot_run_counter"].tolist() == [num_launches * num_entries]
    rows = launch["violation_ring"]
    assert len(np.unique(rows[:, VIOLATION_SLOT])) == capacity
    assert (rows[:, VIOLATION_REASON_BITS] == FailReason.SLOT_OUT_OF_RANGE).all()
