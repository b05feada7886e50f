"""`verify.cuh` gives the bits, rows and counters of the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.cpp_headers import ON_HOST, ON_HOST_THREADS
from tests.helpers.vectors import vector_cases
from tests.kernels.implementations import REFERENCE
from tests.kernels.launches import (
    arguments,
    assert_same_outcome,
    malformed_vectors,
    outcome,
    ring,
    verify_launch,
    wanted_of,
)
from tests.kernels.malformed_cases import CASES
from tests.kernels.test_verify import worlds
from tests.kernels.vector_launches import verify_vector

BOTH = pytest.mark.parametrize("headers", [ON_HOST, ON_HOST_THREADS], ids=lambda each: each.name)
# Below 0 the ring loses its first rows, and which ones these are depends on the order.
_LEAST_INDEX = {ON_HOST.name: -2, ON_HOST_THREADS.name: 0}


@BOTH
@pytest.mark.parametrize("case_idx", range(len(vector_cases("verify"))))
def test_verify_header_reproduces_the_shared_vector(headers, case_idx):
    case = vector_cases("verify")[case_idx]
    launch = verify_vector(case, headers)
    wanted = wanted_of(case)
    np.testing.assert_array_equal(launch["canary_records"], wanted.pop("canary_records"))
    assert_same_outcome(headers, outcome(headers, "verify", launch), wanted)


@pytest.mark.parametrize("name", CASES["verify"]())
def test_verify_header_reproduces_our_vector_of_malformed_input(name):
    case = malformed_vectors("verify")[name]
    assert_same_outcome(ON_HOST, outcome(ON_HOST, "verify", case["in"]), case["out"])


@BOTH
@given(
    world=worlds(),
    num_valid=st.integers(-2, 10),
    enable=st.integers(-1, 1),
    ring_capacity=st.integers(0, 3),
    wants_bits=st.booleans(),
    has_hashes=st.booleans(),
    data=st.data(),
)
def test_verify_header_agrees_with_the_reference(
    headers, world, num_valid, enable, ring_capacity, wants_bits, has_hashes, data
):
    records, entries, check_tokens = world
    launch = verify_launch(
        records=[list(record) for record in records],
        slots=[entry.slot for entry in entries],
        prevs=[entry.prev for entry in entries],
        verify_expected_tokens=[entry.token for entry in entries],
        verify_expected_positions=[entry.position for entry in entries],
        verify_num_valid=[num_valid],
        enable=[enable],
        real_kv_hashes=[entry.real_kv_hash for entry in entries] if has_hashes else [],
        violation_ring=ring(ring_capacity),
        violation_write_index=[data.draw(st.integers(_LEAST_INDEX[headers.name], 4))],
        check_verify_expected_token=check_tokens,
    )
    if not wants_bits:
        launch |= arguments(reason_bits=[])
    wanted = outcome(REFERENCE, "verify", launch)
    assert_same_outcome(headers, outcome(headers, "verify", launch), wanted)


def test_verify_header_steps_over_the_words_behind_a_record():
    records = np.full((5, 7), 3, dtype=np.uint64)
    launch = verify_launch(records=records, slots=[1, 2, 3, 4], prevs=[0, 1, 2, 3])
    wanted = outcome(REFERENCE, "verify", launch)
    assert wanted["violation_write_index"].tolist() == [4]
    assert_same_outcome(ON_HOST, outcome(ON_HOST, "verify", launch), wanted)
