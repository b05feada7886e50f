"""`launch_verify_source`: the last source is folded beside the records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import PARTIAL_READ_BYTES, RealKvHashMode
from kvaudit.kernels.fold import reference as fold
from tests.helpers import hand_oracle
from tests.helpers.vectors import vector_cases
from tests.kernels.implementations import IMPLEMENTATIONS, REFERENCE, WRAPS
from tests.kernels.launches import (
    UNTOUCHED,
    array,
    assert_same_outcome,
    outcome,
    verify_launch,
    wanted_of,
)
from tests.kernels.test_verify import REAL_KV, chain_of_a, worlds
from tests.kernels.vector_launches import verify_vector

pytestmark = [pytest.mark.parametrize("implementation", IMPLEMENTATIONS), WRAPS]


def with_source(launch, source, layout):
    """A launch that folds its last source itself; layout: page_size, bytes a token, read_bytes."""
    names = ("page_size", "num_bytes_per_token", "read_bytes")
    return launch | {"source_bytes": source} | dict(zip(names, layout, strict=True))


def outcome_with_source(implementation, launch):
    return outcome(implementation, "verify", launch, launcher="launch_verify_source")


def test_verify_folds_a_source_itself_and_compares_its_bytes(implementation):
    source = np.arange(5 * 16, dtype=np.uint8).reshape(5, 16)
    launch = chain_of_a()
    for slot in (2, 3, 4):
        launch["canary_records"][slot, 3] = hand_oracle.combined(
            [hand_oracle.fold(source[slot].tobytes())]
        )
    launch = with_source(launch, source, (1, 16, 16))
    assert outcome_with_source(implementation, launch)["reason_bits"].tolist() == [0, 0, 0]
    source[3, 7] ^= 1
    result = outcome_with_source(implementation, launch)
    assert result["reason_bits"].tolist() == [0, REAL_KV, 0]
    assert result["violation_write_index"].tolist() == [1]
    assert result["slot_run_counter"].tolist() == [3]
    assert result["kernel_run_counter"].tolist() == [1]


def test_verify_with_a_source_goes_on_from_the_hashes_of_those_before_it(implementation):
    source = np.arange(5 * 16, dtype=np.uint8).reshape(5, 16)
    launch = chain_of_a(real_kv_hashes=[hand_oracle.combined([slot]) for slot in (2, 3, 4)])
    for slot in (2, 3, 4):
        launch["canary_records"][slot, 3] = hand_oracle.combined(
            [slot, hand_oracle.fold(source[slot].tobytes())]
        )
    launch = with_source(launch, source, (1, 16, 16))
    assert outcome_with_source(implementation, launch)["reason_bits"].tolist() == [0, 0, 0]
    launch["real_kv_hashes"][1] ^= np.uint64(1)
    assert outcome_with_source(implementation, launch)["reason_bits"].tolist() == [0, REAL_KV, 0]


def test_verify_with_a_source_that_is_disabled_counts_the_run_and_stops(implementation):
    launch = with_source(chain_of_a(enable=[0]), np.zeros((5, 16), dtype=np.uint8), (1, 16, 16))
    result = outcome_with_source(implementation, launch)
    assert result["reason_bits"].tolist() == [UNTOUCHED] * 3
    assert result["slot_run_counter"].tolist() == [0]
    assert result["kernel_run_counter"].tolist() == [1]


CASES_WITH_SOURCES = [
    case_idx
    for case_idx, case in enumerate(vector_cases("verify"))
    if int(case.inputs["real_kv_hash_mode"]) != RealKvHashMode.NONE
    and int(case.inputs["num_sources"]) > 0
]


@pytest.mark.parametrize("case_idx", CASES_WITH_SOURCES)
def test_verify_that_folds_the_last_source_itself_reproduces_the_shared_vector(
    implementation, case_idx
):
    case = vector_cases("verify")[case_idx]
    last = int(case.inputs["num_sources"]) - 1
    page_size, num_bytes_per_token, read_bytes = case.inputs[f"source{last}.params"].tolist()
    if int(case.inputs["real_kv_hash_mode"]) == RealKvHashMode.PARTIAL:
        read_bytes = PARTIAL_READ_BYTES
    before = case._replace(inputs={**case.inputs, "num_sources": last})
    launch = with_source(
        verify_vector(before, implementation),
        case.inputs[f"source{last}.tensor"],
        (page_size, num_bytes_per_token, read_bytes),
    )
    wanted = wanted_of(case)
    wanted.pop("canary_records")
    assert_same_outcome(implementation, outcome_with_source(implementation, launch), wanted)


@given(
    world=worlds(),
    page_size=st.integers(1, 4),
    read_bytes=st.sampled_from([0, 8, 11, 16, 32, 48]),
    offset=st.sampled_from([0, 8, 3]),
    has_sources_before=st.booleans(),
    num_valid=st.integers(-2, 10),
    enable=st.integers(-1, 1),
    data=st.data(),
)
def test_verify_with_a_source_is_a_fold_and_a_verify_of_the_reference(
    implementation,
    world,
    page_size,
    read_bytes,
    offset,
    has_sources_before,
    num_valid,
    enable,
    data,
):
    """Of any alignment and size, of more slots than there are records and of fewer."""
    records, entries, check_tokens = world
    num_bytes_per_token = data.draw(st.sampled_from([read_bytes, 48]))
    row_bytes, num_rows = page_size * num_bytes_per_token, data.draw(st.integers(0, 3))
    memory = np.random.default_rng(3).integers(0, 256, offset + num_rows * row_bytes, np.uint8)
    source = memory[offset:].reshape(num_rows, row_bytes)
    layout = (page_size, num_bytes_per_token, read_bytes)
    slots = np.array([entry.slot for entry in entries], dtype=np.int64)
    before = [entry.real_kv_hash for entry in entries] if has_sources_before else []
    hashes = array("real_kv_hashes", before or [0] * len(entries))
    source_hashes = np.zeros_like(hashes)
    fold.launch_fold(source, slots, source_hashes, *layout)
    fold.launch_combine(source_hashes, hashes)
    rows = [list(record) for record in records]
    for entry, real_kv_hash in zip(entries, hashes.tolist(), strict=True):
        if entry.slot in range(len(rows)) and data.draw(st.booleans()):
            rows[entry.slot][3] = real_kv_hash
    launch = verify_launch(
        records=rows,
        slots=slots,
        prevs=[entry.prev for entry in entries],
        verify_expected_tokens=[entry.token for entry in entries],
        verify_expected_positions=[entry.position for entry in entries],
        verify_num_valid=[num_valid],
        enable=[enable],
        check_verify_expected_token=check_tokens,
    )
    wanted = outcome(REFERENCE, "verify", launch | {"real_kv_hashes": hashes})
    launch |= {"real_kv_hashes": array("real_kv_hashes", before)}
    got = outcome_with_source(implementation, with_source(launch, source, layout))
    assert_same_outcome(implementation, got, wanted)
