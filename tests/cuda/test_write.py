"""`write.cuh` stamps the records of the reference, with its rows and counters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import RECORD_WORDS
from tests.helpers.cpp_headers import ON_HOST, ON_HOST_THREADS
from tests.helpers.vectors import vector_cases
from tests.kernels.implementations import REFERENCE
from tests.kernels.launches import (
    UNTOUCHED,
    assert_same_outcome,
    malformed_vectors,
    outcome,
    ring,
    wanted_of,
    write_launch,
)
from tests.kernels.malformed_cases import CASES
from tests.kernels.test_write import request_b, world_launch, worlds
from tests.kernels.vector_launches import write_vector

BOTH = pytest.mark.parametrize("headers", [ON_HOST, ON_HOST_THREADS], ids=lambda each: each.name)
# Below 0 the ring loses its first rows, and which ones these are depends on the order.
_LEAST_INDEX = {ON_HOST.name: -2, ON_HOST_THREADS.name: 0}


@BOTH
@pytest.mark.parametrize("case_idx", range(len(vector_cases("write"))))
def test_write_header_reproduces_the_shared_vector(headers, case_idx):
    case = vector_cases("write")[case_idx]
    launch = write_vector(case, headers)
    assert_same_outcome(headers, outcome(headers, "write", launch), wanted_of(case))


@pytest.mark.parametrize("name", CASES["write"]())
def test_write_header_reproduces_our_vector_of_malformed_input(name):
    case = malformed_vectors("write")[name]
    assert_same_outcome(ON_HOST, outcome(ON_HOST, "write", case["in"]), case["out"])


@BOTH
@given(
    world=worlds(),
    num_valid_reqs=st.integers(-1, 5),
    ring_capacity=st.integers(0, 3),
    data=st.data(),
)
def test_write_header_agrees_with_the_reference_on_any_offsets(
    headers, world, num_valid_reqs, ring_capacity, data
):
    num_requests = len(world[1])
    offset = st.integers(-2, sum(len(items) for _, items in world[1]) + 2)
    # Sorted, so that no two requests share an entry; decreasing pairs are pinned as vectors.
    offsets = sorted(
        data.draw(st.lists(offset, min_size=num_requests + 1, max_size=num_requests + 1))
    )
    launch = world_launch(
        world,
        write_offsets=offsets,
        write_num_valid_reqs=[num_valid_reqs],
        violation_ring=ring(ring_capacity),
        violation_write_index=[data.draw(st.integers(_LEAST_INDEX[headers.name], 4))],
    )
    wanted = outcome(REFERENCE, "write", launch)
    assert_same_outcome(headers, outcome(headers, "write", launch), wanted)


def test_write_header_leaves_the_words_behind_a_record():
    launch = request_b(records=np.full((16, 7), UNTOUCHED, dtype=np.uint64))
    wanted = outcome(REFERENCE, "write", launch)
    assert wanted["canary_records"][6:10, 0].tolist() == [21, 22, 23, 24]
    assert_same_outcome(ON_HOST, outcome(ON_HOST, "write", launch), wanted)


def test_write_header_reports_a_slot_past_the_pool_by_what_was_written():
    """Also where the input assert would have expected something else."""
    launch = request_b(
        slots=[6, 16, 8, 9],
        expected_input_tokens=[21, 5, 23, 24],
        expected_input_positions=[0, 7, 2, 3],
    )
    wanted = outcome(REFERENCE, "write", launch)
    assert wanted["violation_write_index"].tolist() == [1]
    assert_same_outcome(ON_HOST, outcome(ON_HOST, "write", launch), wanted)


def test_threads_that_stamp_requests_lose_no_count():
    num_requests = 20_000
    launch = write_launch(
        records=[[0] * RECORD_WORDS] * num_requests,
        tokens=np.arange(num_requests),
        positions=[0] * num_requests,
        slots=np.arange(num_requests),
        write_offsets=np.arange(num_requests + 1),
        write_seed_slot_indices=np.full(num_requests, -1),
        write_num_valid_reqs=[num_requests],
    )
    wanted = outcome(ON_HOST, "write", launch)
    assert wanted["slot_run_counter"].tolist() == [num_requests]
    assert_same_outcome(ON_HOST_THREADS, outcome(ON_HOST_THREADS, "write", launch), wanted)
