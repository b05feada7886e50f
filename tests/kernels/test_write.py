"""`write`: by hand, pinned vectors, against the hand oracle, invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import CHAIN_ANCHOR
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
    wanted_of,
    write_launch,
)
from tests.kernels.malformed_cases import CASES
from tests.kernels.vector_launches import write_vector

pytestmark = [pytest.mark.parametrize("implementation", IMPLEMENTATIONS), WRAPS]

TOKEN, POSITION = 8, 16
SLOT_OUTSIDE, SEED_OUTSIDE = 1 << 16, 1 << 17
B_HASHES = [CHAIN_ANCHOR, 0x37FCA5A47DCA7665, 0x6B7B87C0703B2023, 0x7BE47DBB74D425A4]


def request_b(**changed):
    """Tokens 21 to 24 at slots 6 to 9 of an empty pool (CASES.md 2, request B)."""
    values = {
        "records": [[0] * 4] * 16,
        "tokens": [21, 22, 23, 24],
        "positions": [0, 1, 2, 3],
        "slots": [6, 7, 8, 9],
    }
    return write_launch(**(values | changed))


def rows_of(result):
    return result["violation_ring"][: int(result["violation_write_index"][0])].tolist()


# By hand


def test_write_stamps_the_chain_of_fixture_f(implementation):
    result = outcome(implementation, "write", request_b())
    wanted = [[21 + i, i, B_HASHES[i], 0] for i in range(4)]
    assert result["canary_records"][6:10].tolist() == wanted
    assert result["canary_records"][:6].tolist() == [[0] * 4] * 6
    assert result["canary_records"][10:].tolist() == [[0] * 4] * 6
    assert result["slot_run_counter"].tolist() == [4]
    assert result["kernel_run_counter"].tolist() == [1]
    assert rows_of(result) == []


def test_write_continues_a_chain_from_its_seed(implementation):
    first = outcome(implementation, "write", request_b(write_offsets=[0, 2]))
    rest = request_b(
        records=first["canary_records"],
        write_offsets=[2, 4],
        write_seed_slot_indices=[7],
    )
    result = outcome(implementation, "write", rest)
    assert result["canary_records"][6:10, 2].tolist() == B_HASHES
    assert rows_of(result) == []


def test_write_stores_the_combined_hashes_it_is_given(implementation):
    result = outcome(implementation, "write", request_b(real_kv_hashes=[5, 6, 7, 2**64 - 1]))
    assert result["canary_records"][6:10, 3].tolist() == [5, 6, 7, 2**64 - 1]


def test_write_reports_token_and_position_of_the_input_in_one_row(implementation):
    launch = request_b(expected_input_tokens=[21, 9, 23, 8], expected_input_positions=[0, 1, 5, 7])
    assert sorted(rows_of(outcome(implementation, "write", launch))) == [
        [3, 7, 1, 22, 9, B_HASHES[1], 1, TOKEN],
        [3, 8, 2, 23, 23, B_HASHES[2], 5, POSITION],
        [3, 9, 3, 24, 8, B_HASHES[3], 7, TOKEN | POSITION],
    ]


def test_write_asserts_the_chain_in_a_row_of_its_own(implementation):
    launch = request_b(
        positions=[1, 2, 5, 6],
        write_seed_slot_indices=[0],
        expected_input_tokens=[21, 22, 9, 24],
        expected_input_positions=[1, 2, 5, 6],
    )
    rows = rows_of(outcome(implementation, "write", launch))
    assert [[row[1], row[4], row[6], row[7]] for row in rows] == [
        [8, 9, 5, TOKEN],
        [8, 23, 3, POSITION],
    ]


def test_write_asserts_the_chain_from_slot_0_too(implementation):
    launch = request_b(write_seed_slot_indices=[0], write_offsets=[0, 1])
    assert rows_of(outcome(implementation, "write", launch)) == [[3, 6, 0, 21, 21, 0, 1, POSITION]]


@pytest.mark.parametrize(
    "changed",
    [
        {"write_seed_slot_indices": [-1]},
        {"write_seed_slot_indices": [0], "enable_chain_position_assert": [0]},
    ],
    ids=["head", "off"],
)
def test_write_does_not_assert_a_chain_without_seed_or_flag(implementation, changed):
    launch = request_b(positions=[4, 9, 1, 0], **changed)
    assert rows_of(outcome(implementation, "write", launch)) == []


def test_write_skips_a_negative_slot_without_advancing(implementation):
    result = outcome(implementation, "write", request_b(slots=[6, -1, 8, -5]))
    assert result["canary_records"][8].tolist() == [23, 2, B_HASHES[1], 0]
    assert result["slot_run_counter"].tolist() == [2]


def test_write_advances_over_a_slot_past_the_pool_and_reports_it(implementation):
    result = outcome(implementation, "write", request_b(slots=[6, 16, 8, 9]))
    assert result["canary_records"][8].tolist() == [23, 2, B_HASHES[2], 0]
    assert result["slot_run_counter"].tolist() == [3]
    assert rows_of(result) == [[3, 16, 1, 22, 22, B_HASHES[1], 1, SLOT_OUTSIDE]]


def test_write_takes_a_seed_past_the_pool_for_a_head_and_reports_it(implementation):
    result = outcome(implementation, "write", request_b(write_seed_slot_indices=[16]))
    assert result["canary_records"][6:10, 2].tolist() == B_HASHES
    assert rows_of(result) == [[3, 16, 0, 0, 0, 0, 0, SEED_OUTSIDE]]


def test_write_of_a_request_without_entries_does_nothing(implementation):
    launch = request_b(
        write_offsets=[4, 2, 2], write_seed_slot_indices=[99, 99], write_num_valid_reqs=[2]
    )
    result = outcome(implementation, "write", launch)
    assert not result["canary_records"].any()
    assert rows_of(result) == []
    assert result["kernel_run_counter"].tolist() == [1]


def test_write_stamps_slot_0_like_any_other(implementation):
    result = outcome(implementation, "write", request_b(slots=[0, 1, 2, 3]))
    assert result["canary_records"][0].tolist() == [21, 0, CHAIN_ANCHOR, 0]


# Pins


@pytest.mark.parametrize("case_idx", range(len(vector_cases("write"))))
def test_write_reproduces_the_shared_vector(implementation, case_idx):
    case = vector_cases("write")[case_idx]
    launch = write_vector(case, implementation)
    result = outcome(implementation, "write", launch)
    assert_same_outcome(implementation, result, wanted_of(case))


@pytest.mark.parametrize("name", CASES["write"]())
def test_write_reproduces_our_vector_of_malformed_input(implementation, name):
    case = malformed_vectors("write")[name]
    assert_same_outcome(
        implementation,
        outcome(implementation, "write", case["in"]),
        case["out"],
        first_row=int(case["in"]["violation_write_index"][0]),
    )


# Differential

WORD = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])


@st.composite
def worlds(draw):
    """Records of some slots and requests whose seeds no request of the launch writes.

    No two entries name one slot: on a device the outcome of either is unspecified.
    """
    num_slots = draw(st.integers(0, 9))
    records = [
        hand_oracle.Record(*draw(st.tuples(WORD, WORD, WORD, WORD))) for _ in range(num_slots)
    ]
    free = draw(st.permutations(range(1, num_slots))) if num_slots else []
    has_expected = draw(st.booleans())
    requests = []
    for _ in range(draw(st.integers(0, 3))):
        unusual = draw(st.sampled_from([-2, -1, 0, num_slots, num_slots + 3]))
        seed = free.pop() if free and draw(st.booleans()) else unusual
        inputs = []
        for _ in range(draw(st.integers(0, 3))):
            outside = draw(st.sampled_from([-3, -1, num_slots, num_slots + 1]))
            slot = free.pop() if free and draw(st.booleans()) else outside
            expected = draw(st.tuples(WORD, WORD)) if has_expected else None
            inputs.append(
                hand_oracle.Input(*draw(st.tuples(WORD, WORD)), slot, expected, draw(WORD))
            )
        requests.append((seed, inputs))
    return records, requests, draw(st.booleans())


def world_launch(world, **changed):
    records, requests, assert_chain = world
    inputs = [item for _, items in requests for item in items]
    pairs = [item.expected for item in inputs if item.expected is not None]
    values = {
        "records": [list(record) for record in records],
        "tokens": [item.token for item in inputs],
        "positions": [item.position for item in inputs],
        "slots": [item.slot for item in inputs],
        "write_offsets": np.cumsum([0] + [len(items) for _, items in requests]),
        "write_seed_slot_indices": [seed for seed, _ in requests],
        "write_num_valid_reqs": [len(requests)],
        "expected_input_tokens": [token for token, _ in pairs],
        "expected_input_positions": [position for _, position in pairs],
        "real_kv_hashes": [item.real_kv_hash for item in inputs],
        "enable_chain_position_assert": [int(assert_chain)],
    }
    return write_launch(**(values | changed))


@given(world=worlds())
def test_write_agrees_with_the_hand_oracle(implementation, world):
    records, requests, assert_chain = world
    after, rows, stored = hand_oracle.write(records, requests, tag=3, assert_chain=assert_chain)
    result = outcome(implementation, "write", world_launch(world, violation_ring=ring(40)))
    assert [tuple(record) for record in result["canary_records"].tolist()] == after
    got_rows = rows_of(result)
    wanted = [[field % 2**64 for field in row] for row in rows]
    assert (got_rows if implementation.keeps_order else sorted(got_rows)) == (
        wanted if implementation.keeps_order else sorted(wanted)
    )
    assert result["slot_run_counter"].tolist() == [stored]


@given(
    world=worlds(),
    num_valid_reqs=st.integers(-1, 5),
    ring_capacity=st.integers(0, 3),
    write_index=st.integers(-2, 4),
    data=st.data(),
)
def test_write_agrees_with_the_reference_on_any_offsets(
    implementation, world, num_valid_reqs, ring_capacity, write_index, data
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
        violation_write_index=[write_index],
    )
    wanted = outcome(REFERENCE, "write", launch)
    got = outcome(implementation, "write", launch)
    assert_same_outcome(implementation, got, wanted, first_row=write_index)


# Invariants


def test_write_leaves_the_words_past_a_record_untouched(implementation):
    wide = np.full((16, 7), UNTOUCHED, dtype=np.uint64)
    result = outcome(implementation, "write", request_b(records=wide))
    assert (result["canary_records"][:, 4:] == UNTOUCHED).all()
    assert result["canary_records"][6:10, 0].tolist() == [21, 22, 23, 24]


def test_write_then_verify_finds_nothing(implementation):
    stamped = outcome(implementation, "write", request_b(real_kv_hashes=[1, 2, 3, 4]))
    result = outcome(
        implementation,
        "verify",
        arguments(
            canary_records=stamped["canary_records"],
            verify_slot_indices=[6, 7, 8, 9],
            verify_expected_tokens=[21, 22, 23, 24],
            verify_expected_positions=[0, 1, 2, 3],
            verify_prev_slot_indices=[-1, 6, 7, 8],
            verify_num_valid=[4],
            enable=[1],
            real_kv_hashes=[1, 2, 3, 4],
            reason_bits=[UNTOUCHED] * 4,
            violation_ring=ring(4),
            violation_write_index=[0],
            slot_run_counter=[0],
            kernel_run_counter=[0],
            launch_tag=2,
            check_verify_expected_token=True,
        ),
    )
    assert result["reason_bits"].tolist() == [0, 0, 0, 0]


def test_write_of_many_requests_equals_the_reference(implementation):
    generator = np.random.default_rng(6)
    num_tokens = 30 if IN_SIMULATOR else 3_000
    num_requests = num_tokens // 10
    launch = write_launch(
        records=generator.integers(0, 9, (num_tokens + 1, 4)),
        tokens=generator.integers(0, 9, num_tokens),
        positions=np.arange(num_tokens) % 10,
        slots=1 + generator.permutation(num_tokens),
        write_offsets=np.arange(num_requests + 1) * 10,
        write_seed_slot_indices=generator.integers(-1, 1, num_requests),
        write_num_valid_reqs=[num_requests],
        violation_ring=ring(num_tokens),
    )
    wanted = outcome(REFERENCE, "write", launch)
    assert_same_outcome(implementation, outcome(implementation, "write", launch), wanted)


@pytest.mark.parametrize("num_entries", [31, 32, 33, 64, 65, 100])
def test_write_of_long_requests_over_few_slots_equals_the_reference(implementation, num_entries):
    """A warp takes 32 entries at a time: equal slots meet in one tile and in several.

    Some entries are skipped or outside the pool, the seed of one request is among its own slots.
    """
    generator = np.random.default_rng(num_entries)
    num_requests, slots_each = 3, 7
    num_tokens = num_requests * num_entries
    num_slots = num_requests * slots_each
    request_of_entry = np.arange(num_tokens) // num_entries
    slots = request_of_entry * slots_each + generator.integers(0, slots_each, num_tokens)
    slots[generator.integers(0, 5, num_tokens) == 0] = -1
    slots[generator.integers(0, 9, num_tokens) == 0] = num_slots
    positions = np.arange(num_tokens) % num_entries
    launch = write_launch(
        records=generator.integers(0, 9, (num_slots, 4)),
        tokens=generator.integers(0, 9, num_tokens),
        positions=positions + (generator.integers(0, 9, num_tokens) == 0),
        slots=slots,
        write_offsets=np.arange(num_requests + 1) * num_entries,
        write_seed_slot_indices=[3, -1, num_slots],
        write_num_valid_reqs=[num_requests],
        expected_input_tokens=generator.integers(0, 9, num_tokens),
        expected_input_positions=positions,
        real_kv_hashes=generator.integers(0, 9, num_tokens),
        violation_ring=ring(2 * num_tokens),
    )
    wanted = outcome(REFERENCE, "write", launch)
    assert_same_outcome(implementation, outcome(implementation, "write", launch), wanted)
