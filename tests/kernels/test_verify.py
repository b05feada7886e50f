"""`verify`: by hand, pinned vectors, against the hand oracle, invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import CHAIN_ANCHOR
from kvaudit.kernels.hash.reference import splitmix64_mix3
from tests.helpers import hand_oracle
from tests.helpers.vectors import vector_cases
from tests.kernels.implementations import IMPLEMENTATIONS, IN_SIMULATOR, REFERENCE, WRAPS
from tests.kernels.launches import (
    UNTOUCHED,
    arguments,
    assert_same_outcome,
    malformed_vectors,
    outcome,
    ring,
    verify_launch,
    wanted_of,
)
from tests.kernels.malformed_cases import CASES
from tests.kernels.vector_launches import verify_vector

pytestmark = [pytest.mark.parametrize("implementation", IMPLEMENTATIONS), WRAPS]

CHAIN, POSITION, REAL_KV, TOKEN = 1, 2, 4, 32
SLOT_OUTSIDE, PREV_OUTSIDE = 1 << 16, 1 << 17
A1_HASH = 0x89CD2ABFBEBC0649
A2_HASH = 0x13F5BAAFE6EF85D6


def chain_of_a(**changed):
    """Tokens 11, 12, 13 at slots 2, 3, 4 (CASES.md 2, request A), to be checked as written."""
    records = [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [11, 0, CHAIN_ANCHOR, 0],
        [12, 1, A1_HASH, 0],
        [13, 2, A2_HASH, 0],
    ]
    values = {
        "records": records,
        "slots": [2, 3, 4],
        "prevs": [-1, 2, 3],
        "verify_expected_tokens": [11, 12, 13],
        "verify_expected_positions": [0, 1, 2],
    }
    return verify_launch(**(values | changed))


def damaged(entry, word, value):
    """Request A with one word of one record changed."""
    launch = chain_of_a()
    launch["canary_records"][entry + 2, word] = value
    return launch


def bits_of(implementation, launch):
    return outcome(implementation, "verify", launch)["reason_bits"].tolist()


def rows_of(implementation, launch):
    result = outcome(implementation, "verify", launch)
    return result["violation_ring"][: int(result["violation_write_index"][0])].tolist()


# By hand


def test_verify_finds_nothing_in_a_right_chain(implementation):
    result = outcome(implementation, "verify", chain_of_a())
    assert result["reason_bits"].tolist() == [0, 0, 0]
    assert result["violation_write_index"].tolist() == [0]
    assert result["slot_run_counter"].tolist() == [3]
    assert result["kernel_run_counter"].tolist() == [1]
    assert (result["violation_ring"] == UNTOUCHED).all()


def test_verify_reports_token_and_the_broken_link_behind_it(implementation):
    launch = damaged(1, 0, 99)
    assert bits_of(implementation, launch) == [0, TOKEN, CHAIN]


def test_verify_reports_the_broken_link_alone_when_tokens_are_not_checked(implementation):
    launch = damaged(1, 0, 99) | {"check_verify_expected_token": False}
    assert bits_of(implementation, launch) == [0, 0, CHAIN]


def test_verify_reports_position_and_the_broken_link_behind_it(implementation):
    assert bits_of(implementation, damaged(1, 1, 7)) == [0, POSITION, CHAIN]


def test_verify_reports_a_changed_prev_hash_twice(implementation):
    assert bits_of(implementation, damaged(1, 2, A1_HASH ^ 1)) == [0, CHAIN, CHAIN]


def test_verify_reports_a_changed_real_kv_hash_once(implementation):
    """Mode NONE expects 0; the chain does not cover the hash (CASES.md T22)."""
    assert bits_of(implementation, damaged(1, 3, 5)) == [0, REAL_KV, 0]


def test_verify_compares_real_kv_hashes_when_given(implementation):
    launch = chain_of_a(real_kv_hashes=[0, 5, 0])
    launch["canary_records"][3, 3] = 6
    assert bits_of(implementation, launch) == [0, REAL_KV, 0]
    launch["canary_records"][3, 3] = 5
    assert bits_of(implementation, launch) == [0, 0, 0]


def test_verify_row_carries_what_was_stored_and_what_was_expected(implementation):
    launch = damaged(2, 2, 77) | {"launch_tag": 9}
    launch["verify_expected_tokens"][2] = 14
    assert rows_of(implementation, launch) == [[9, 4, 2, 13, 14, 77, A2_HASH, CHAIN | TOKEN]]


def test_verify_row_says_that_the_token_was_not_checked(implementation):
    launch = damaged(2, 1, 7) | {"check_verify_expected_token": False}
    assert rows_of(implementation, launch) == [[2, 4, 7, 13, 2**64 - 1, A2_HASH, A2_HASH, POSITION]]


def test_verify_skips_padding_and_counts_it(implementation):
    launch = verify_launch(records=[[9, 9, 9, 9]], slots=[0, 0], prevs=[5, -1])
    result = outcome(implementation, "verify", launch)
    assert result["reason_bits"].tolist() == [0, 0]
    assert result["violation_write_index"].tolist() == [0]
    assert result["slot_run_counter"].tolist() == [2]


def test_verify_does_not_check_the_chain_of_an_unreachable_predecessor(implementation):
    launch = chain_of_a(prevs=[0, 0, 0])
    launch["canary_records"][3, 2] = 1234
    assert bits_of(implementation, launch) == [0, 0, 0]


def test_verify_reports_a_slot_outside_the_pool_alone(implementation):
    launch = chain_of_a(slots=[2, 5, -7])
    assert bits_of(implementation, launch) == [0, SLOT_OUTSIDE, SLOT_OUTSIDE]
    assert sorted(rows_of(implementation, launch)) == [
        [2, 5, 0, 0, 12, 0, 0, SLOT_OUTSIDE],
        [2, 2**64 - 7, 0, 0, 13, 0, 0, SLOT_OUTSIDE],
    ]


def test_verify_goes_on_when_the_predecessor_is_outside_the_pool(implementation):
    launch = chain_of_a(prevs=[-1, 5, 3], verify_expected_positions=[0, 3, 2])
    assert bits_of(implementation, launch) == [0, POSITION | PREV_OUTSIDE, 0]
    assert rows_of(implementation, launch) == [
        [2, 3, 1, 12, 12, A1_HASH, A1_HASH, POSITION | PREV_OUTSIDE]
    ]


def test_verify_that_is_disabled_counts_the_run_and_stops(implementation):
    result = outcome(implementation, "verify", damaged(1, 0, 99) | arguments(enable=[0]))
    assert result["reason_bits"].tolist() == [UNTOUCHED] * 3
    assert result["slot_run_counter"].tolist() == [0]
    assert result["kernel_run_counter"].tolist() == [1]


def test_verify_leaves_the_bits_past_num_valid_untouched(implementation):
    launch = chain_of_a(verify_num_valid=[2])
    assert bits_of(implementation, launch) == [0, 0, UNTOUCHED]


def test_verify_is_blind_to_a_zeroed_tail_but_for_its_first_slot(implementation):
    """Zero words hash to 0, so only the first zeroed slot breaks the chain (CASES.md T09)."""
    launch = chain_of_a(verify_expected_tokens=[-1, -1, -1])
    launch["canary_records"][3:] = 0
    assert bits_of(implementation, launch) == [0, CHAIN | POSITION, POSITION]


def test_verify_writes_no_bits_when_none_are_wanted(implementation):
    launch = damaged(1, 1, 7) | arguments(reason_bits=[])
    result = outcome(implementation, "verify", launch)
    assert result["reason_bits"].shape == (0,)
    assert result["violation_write_index"].tolist() == [2]


# Pins


@pytest.mark.parametrize("case_idx", range(len(vector_cases("verify"))))
def test_verify_reproduces_the_shared_vector(implementation, case_idx):
    case = vector_cases("verify")[case_idx]
    launch = verify_vector(case, implementation)
    wanted = wanted_of(case)
    records = wanted.pop("canary_records")
    np.testing.assert_array_equal(launch["canary_records"], records)
    assert_same_outcome(implementation, outcome(implementation, "verify", launch), wanted)


@pytest.mark.parametrize("name", CASES["verify"]())
def test_verify_reproduces_our_vector_of_malformed_input(implementation, name):
    case = malformed_vectors("verify")[name]
    assert_same_outcome(
        implementation,
        outcome(implementation, "verify", case["in"]),
        case["out"],
        first_row=int(case["in"]["violation_write_index"][0]),
    )


# Differential

SLOT = st.integers(-2, 7)
# Few values, so that expectations are met as well as missed.
WORD = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])


@st.composite
def worlds(draw):
    """Records of at most 6 slots, partly chained, and entries that partly fit them."""
    records = [
        hand_oracle.Record(*draw(st.tuples(WORD, WORD, WORD, WORD)))
        for _ in range(draw(st.integers(0, 6)))
    ]
    entries = []
    for _ in range(draw(st.integers(0, 8))):
        entry = hand_oracle.Entry(*draw(st.tuples(SLOT, SLOT, WORD, WORD, WORD)))
        known = entry.slot in range(len(records)) and entry.prev in range(len(records))
        if known and draw(st.booleans()):
            right = hand_oracle.link(records[entry.prev])
            records[entry.slot] = records[entry.slot]._replace(prev_hash=right)
        entries.append(entry)
    return records, entries, draw(st.booleans())


@given(world=worlds())
def test_verify_agrees_with_the_hand_oracle(implementation, world):
    records, entries, check_tokens = world
    launch = verify_launch(
        records=[list(record) for record in records],
        slots=[entry.slot for entry in entries],
        prevs=[entry.prev for entry in entries],
        verify_expected_tokens=[entry.token for entry in entries],
        verify_expected_positions=[entry.position for entry in entries],
        real_kv_hashes=[entry.real_kv_hash for entry in entries],
        check_verify_expected_token=check_tokens,
    )
    bits, rows = hand_oracle.verify(records, entries, tag=2, check_tokens=check_tokens)
    result = outcome(implementation, "verify", launch)
    got_rows = result["violation_ring"][: len(rows)].tolist()
    assert result["reason_bits"].tolist() == bits
    assert result["violation_write_index"].tolist() == [len(rows)]
    assert (got_rows if implementation.keeps_order else sorted(got_rows)) == (
        rows if implementation.keeps_order else sorted(rows)
    )


@given(
    world=worlds(),
    num_valid=st.integers(-2, 10),
    enable=st.integers(-1, 1),
    ring_capacity=st.integers(0, 3),
    write_index=st.integers(-2, 4),
)
def test_verify_agrees_with_the_reference(
    implementation, world, num_valid, enable, ring_capacity, write_index
):
    records, entries, check_tokens = world
    launch = verify_launch(
        records=[list(record) for record in records],
        slots=[entry.slot for entry in entries],
        prevs=[entry.prev for entry in entries],
        verify_expected_tokens=[entry.token for entry in entries],
        verify_num_valid=[num_valid],
        enable=[enable],
        violation_ring=ring(ring_capacity),
        violation_write_index=[write_index],
        check_verify_expected_token=check_tokens,
    )
    wanted = outcome(REFERENCE, "verify", launch)
    got = outcome(implementation, "verify", launch)
    assert_same_outcome(implementation, got, wanted, first_row=write_index)


# Invariants


def test_verify_keeps_the_first_rows_of_an_overflowing_ring_and_counts_all(implementation):
    launch = verify_launch(
        records=[[0] * 4], slots=[5, 6, 7, 8], prevs=[-1] * 4, violation_ring=ring(3)
    )
    result = outcome(implementation, "verify", launch)
    slots = result["violation_ring"][:, 1].tolist()
    assert result["violation_write_index"].tolist() == [4]
    assert len(set(slots)) == 3
    assert set(slots) <= {5, 6, 7, 8}
    if implementation.keeps_order:
        assert slots == [5, 6, 7]


def test_verify_appends_behind_the_rows_of_earlier_launches(implementation):
    launch = verify_launch(
        records=[[0] * 4], slots=[5, 6], prevs=[-1] * 2, violation_write_index=[3]
    )
    result = outcome(implementation, "verify", launch)
    assert (result["violation_ring"][:3] == UNTOUCHED).all()
    assert sorted(result["violation_ring"][3:5, 1].tolist()) == [5, 6]
    assert (result["violation_ring"][5:] == UNTOUCHED).all()


def test_verify_of_strided_records_equals_that_of_packed_ones(implementation):
    launch = damaged(1, 1, 7)
    wide = np.full((5, 7), UNTOUCHED, dtype=np.uint64)
    wide[:, :4] = launch["canary_records"]
    wanted = outcome(REFERENCE, "verify", launch)
    for records in (wide, wide[:, :4]):
        got = outcome(implementation, "verify", launch | {"canary_records": records})
        assert_same_outcome(implementation, got, wanted)


def test_verify_of_many_entries_equals_the_reference(implementation):
    """More entries than one thread's share, some wrong: bits and ring rows in entry order."""
    generator = np.random.default_rng(5)
    num_entries = 40 if IN_SIMULATOR else 70_000
    records = generator.integers(0, 3, (97, 4)).tolist()
    for slot in range(1, 97):
        records[slot][2] = splitmix64_mix3(*(records[slot - 1][word] for word in (2, 0, 1)))
    slots = generator.integers(1, 97, num_entries)
    launch = verify_launch(
        records=records,
        slots=slots,
        prevs=slots - 1,
        verify_expected_positions=[records[slot][1] for slot in slots],
        real_kv_hashes=[records[slot][3] for slot in slots],
        violation_ring=ring(num_entries),
    )
    launch["verify_expected_positions"][:: num_entries // 7] += np.uint64(1)
    wanted = outcome(REFERENCE, "verify", launch)
    assert int(wanted["violation_write_index"][0]) >= 7
    assert_same_outcome(implementation, outcome(implementation, "verify", launch), wanted)
