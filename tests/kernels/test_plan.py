"""`plan`: by hand, pinned vectors, against the reference, invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import OUT_OF_TABLE_SLOT
from tests.helpers import hand_oracle
from tests.helpers.vectors import vector_cases
from tests.kernels.implementations import IMPLEMENTATIONS, IN_SIMULATOR, REFERENCE, WRAPS
from tests.kernels.launches import (
    OUTPUTS,
    UNTOUCHED,
    arguments,
    assert_same_outcome,
    malformed_vectors,
    outcome,
    plan_launch,
    wanted_of,
)
from tests.kernels.malformed_cases import TABLE

pytestmark = [pytest.mark.parametrize("implementation", IMPLEMENTATIONS), WRAPS]

UNCHECKED = 2**64 - 1


def entries_of(result):
    """(slot, prev, token, position) of each valid entry."""
    num_valid = int(result["verify_num_valid"][0])
    names = (
        "verify_slot_indices",
        "verify_prev_slot_indices",
        "verify_expected_tokens",
        "verify_expected_positions",
    )
    return list(zip(*(result[name][:num_valid].tolist() for name in names), strict=True))


# By hand


def test_plan_lists_each_prefix_in_batch_order(implementation):
    launch = plan_launch(requests=[2, 1], prefixes=[1, 3], extends=[0, 0], table=TABLE)
    result = outcome(implementation, "plan", launch)
    assert entries_of(result) == [
        (5, -1, UNCHECKED, 0),
        (1, -1, UNCHECKED, 0),
        (2, 1, UNCHECKED, 1),
        (3, 2, UNCHECKED, 2),
    ]
    assert result["enable"].tolist() == [1]
    assert (result["verify_slot_indices"][4:] == UNTOUCHED).all()


def test_plan_of_a_window_starts_behind_its_reachable_predecessor(implementation):
    launch = plan_launch(requests=[1], prefixes=[4], extends=[0], table=TABLE, swa_window_size=2)
    result = outcome(implementation, "plan", launch)
    assert entries_of(result) == [(3, 2, UNCHECKED, 2), (4, 3, UNCHECKED, 3)]


def test_plan_of_a_window_longer_than_the_prefix_is_the_whole_prefix(implementation):
    launch = plan_launch(requests=[1], prefixes=[2], extends=[0], table=TABLE, swa_window_size=9)
    assert entries_of(outcome(implementation, "plan", launch)) == [
        (1, -1, UNCHECKED, 0),
        (2, 1, UNCHECKED, 1),
    ]


def test_plan_maps_slots_and_predecessors_and_passes_negative_ones(implementation):
    launch = plan_launch(
        requests=[2],
        prefixes=[3],
        extends=[1],
        table=TABLE,
        full_to_swa_index_mapping=[0, 10, 20, 30, 40, 50, 60, 70],
    )
    result = outcome(implementation, "plan", launch)
    assert entries_of(result) == [
        (50, -1, UNCHECKED, 0),
        (-1, 50, UNCHECKED, 1),
        (70, -1, UNCHECKED, 2),
    ]
    assert result["write_seed_slot_indices"].tolist() == [70, UNTOUCHED, UNTOUCHED, UNTOUCHED]


def test_plan_looks_tokens_up_at_the_declared_offset(implementation):
    launch = plan_launch(
        requests=[1],
        prefixes=[4],
        extends=[0],
        table=TABLE,
        req_to_verify_expected_tokens=[[0] * 4, [31, 32, 33, 34]],
        req_to_verify_expected_tokens_valid_lens=[3],
        kv_token_id_vs_position_offset=-1,
    )
    tokens = [token for _, _, token, _ in entries_of(outcome(implementation, "plan", launch))]
    assert tokens == [UNCHECKED, 31, 32, 33]
    launch["kv_token_id_vs_position_offset"] = 1
    tokens = [token for _, _, token, _ in entries_of(outcome(implementation, "plan", launch))]
    assert tokens == [32, 33, UNCHECKED, UNCHECKED]


def test_plan_disables_verify_when_more_is_requested_than_fits(implementation):
    launch = plan_launch(
        requests=[1, 2, 1, 1], prefixes=[4, 4, 4, 1], extends=[1, 1, 0, 1], table=TABLE
    )
    result = outcome(implementation, "plan", launch)
    assert result["enable"].tolist() == [0]
    assert result["verify_num_valid"].tolist() == [12]
    assert (result["verify_slot_indices"] == UNTOUCHED).all()
    assert result["write_offsets"].tolist() == [0, 1, 2, 2, 3]


def test_plan_offsets_are_a_scan_and_zero_past_the_batch(implementation):
    launch = plan_launch(requests=[1, 0, 2], prefixes=[0, 3, 2], extends=[3, 7, 2], table=TABLE)
    result = outcome(implementation, "plan", launch)
    assert result["write_offsets"].tolist() == [0, 3, 3, 5, 0]
    assert result["write_seed_slot_indices"].tolist() == [-1, -1, -1, UNTOUCHED]
    assert result["write_num_valid_reqs"].tolist() == [3]
    assert len(entries_of(result)) == 2


def test_plan_seed_is_the_last_slot_of_the_prefix(implementation):
    launch = plan_launch(requests=[1, 2, 1], prefixes=[3, 4, 2], extends=[1, 1, 0], table=TABLE)
    result = outcome(implementation, "plan", launch)
    assert result["write_seed_slot_indices"].tolist() == [3, 8, -1, UNTOUCHED]


# Pins


@pytest.mark.parametrize("case_idx", range(len(vector_cases("plan"))))
def test_plan_reproduces_the_shared_vector(implementation, case_idx):
    case = vector_cases("plan")[case_idx]
    wanted = wanted_of(case)
    initial = {name: np.zeros_like(value) for name, value in wanted.items()}
    initial["verify_expected_tokens"][:] = UNCHECKED
    launch = initial | arguments(
        req_pool_indices=case.inputs["req_pool_indices"],
        prefix_lens=case.inputs["prefix_lens"],
        extend_seq_lens=case.inputs["extend_seq_lens"],
        req_to_token=case.inputs["req_to_token"],
        full_to_swa_index_mapping=case.inputs.get("full_to_swa_index_mapping", []),
        req_to_verify_expected_tokens=case.inputs.get("req_to_verify_expected_tokens", []),
        req_to_verify_expected_tokens_valid_lens=case.inputs.get(
            "req_to_verify_expected_tokens_valid_lens", []
        ),
        swa_window_size=int(case.inputs["swa_window_size"]),
        kv_token_id_vs_position_offset=int(case.inputs["kv_token_id_vs_position_offset"]),
    )
    assert_same_outcome(implementation, outcome(implementation, "plan", launch), wanted)


MALFORMED = malformed_vectors("plan")


@pytest.mark.parametrize("name", [name for name, case in MALFORMED.items() if case["out"]])
def test_plan_reproduces_our_vector_of_malformed_input(implementation, name):
    case = MALFORMED[name]
    assert_same_outcome(implementation, outcome(implementation, "plan", case["in"]), case["out"])


@pytest.mark.parametrize("name", [name for name, case in MALFORMED.items() if not case["out"]])
def test_plan_refuses_an_index_outside_a_table_as_in_our_vector(implementation, name):
    """A host raises; a device marks the entry with a slot that no pool has."""
    launch = MALFORMED[name]["in"]
    if implementation.raises_on_malformed_plan():
        with pytest.raises(ValueError, match="outside"):
            outcome(implementation, "plan", launch)
    else:
        result = outcome(implementation, "plan", launch)
        num_valid = int(result["verify_num_valid"][0])
        slots = result["verify_slot_indices"][:num_valid].tolist()
        num_requests = int(result["write_num_valid_reqs"][0])
        seeds = result["write_seed_slot_indices"][:num_requests].tolist()
        assert OUT_OF_TABLE_SLOT in slots + seeds


# Differential


@st.composite
def batches(draw):
    """A batch over tables that it stays within, with or without map, window and tokens."""
    num_reqs, max_len = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    batch_size = draw(st.integers(0, 4))
    per_row = {"min_size": batch_size, "max_size": batch_size}
    slot = st.integers(-1, 6)
    rows = st.lists(
        st.lists(slot, min_size=max_len, max_size=max_len), min_size=num_reqs, max_size=num_reqs
    )
    changed = {"swa_window_size": draw(st.integers(0, 6))}
    if draw(st.booleans()):
        changed["full_to_swa_index_mapping"] = draw(st.lists(slot, min_size=7, max_size=7))
    if draw(st.booleans()):
        changed["req_to_verify_expected_tokens"] = draw(rows)
        changed["req_to_verify_expected_tokens_valid_lens"] = draw(
            st.lists(st.integers(-1, max_len), **per_row)
        )
        changed["kv_token_id_vs_position_offset"] = draw(st.integers(-2, 2))
    return plan_launch(
        requests=draw(st.lists(st.integers(0, num_reqs - 1), **per_row)),
        prefixes=draw(st.lists(st.integers(-1, max_len), **per_row)),
        extends=draw(st.lists(st.integers(-1, 3), **per_row)),
        table=draw(rows),
        **changed,
    )


@given(launch=batches())
def test_plan_agrees_with_the_reference(implementation, launch):
    wanted = outcome(REFERENCE, "plan", launch)
    assert_same_outcome(implementation, outcome(implementation, "plan", launch), wanted)


def requests_of(launch):
    """A batch for the hand oracle: each row with its request's slots and known tokens."""
    valid_lens = launch["req_to_verify_expected_tokens_valid_lens"].tolist()
    pool = launch["req_to_verify_expected_tokens"].tolist()
    requests = []
    for row, request in enumerate(launch["req_pool_indices"].tolist()):
        requests.append(
            hand_oracle.Request(
                slots=launch["req_to_token"][request].tolist(),
                prefix=int(launch["prefix_lens"][row]),
                extend=int(launch["extend_seq_lens"][row]),
                tokens=pool[request][: max(0, valid_lens[row])] if valid_lens else [],
                is_padding=request == 0,
            )
        )
    return requests


@given(launch=batches())
def test_plan_agrees_with_the_hand_oracle(implementation, launch):
    entries, bounds, seeds = hand_oracle.plan(
        requests_of(launch),
        window=launch["swa_window_size"],
        offset=launch["kv_token_id_vs_position_offset"],
        swa_slots=launch["full_to_swa_index_mapping"].tolist() or None,
    )
    capacity = launch["verify_slot_indices"].shape[0]
    fits = len(entries) <= capacity
    result = outcome(implementation, "plan", launch)
    assert result["enable"].tolist() == [int(fits)]
    assert result["verify_num_valid"].tolist() == [min(len(entries), capacity)]
    if fits:
        assert entries_of(result) == [
            (entry.slot, entry.prev, entry.token % 2**64, entry.position) for entry in entries
        ]
    num_written = len(entries) if fits else 0
    for name in OUTPUTS["plan"][:4]:
        assert (result[name][num_written:] == UNTOUCHED).all()
    spare = len(result["write_seed_slot_indices"]) - len(seeds)
    assert result["write_offsets"].tolist() == bounds + [0] * spare
    assert result["write_seed_slot_indices"].tolist() == seeds + [UNTOUCHED] * spare
    assert result["write_num_valid_reqs"].tolist() == [len(seeds)]


# Invariants


def test_plan_of_many_rows_equals_the_reference(implementation):
    generator = np.random.default_rng(7)
    batch_size = 6 if IN_SIMULATOR else 300
    max_len = 8 if IN_SIMULATOR else 40
    capacity = batch_size * max_len
    launch = plan_launch(
        requests=generator.integers(0, batch_size, batch_size),
        prefixes=generator.integers(0, max_len + 1, batch_size),
        extends=generator.integers(0, 4, batch_size),
        table=generator.integers(-1, 50, (batch_size, max_len)),
        full_to_swa_index_mapping=generator.integers(0, 50, 50),
        **{name: [UNTOUCHED] * capacity for name in OUTPUTS["plan"][:4]},
        write_offsets=[UNTOUCHED] * (batch_size + 9),
        write_seed_slot_indices=[UNTOUCHED] * (batch_size + 8),
    )
    wanted = outcome(REFERENCE, "plan", launch)
    assert wanted["enable"].tolist() == [1]
    assert_same_outcome(implementation, outcome(implementation, "plan", launch), wanted)


@pytest.mark.parametrize("request_of_empty_rows", [0, 1])
def test_plan_of_rows_that_end_where_a_tile_does_equals_the_reference(
    implementation, request_of_empty_rows
):
    """Also one entry before or behind, with rows of no entries there, of which many follow.

    A device searches the rows of a tile of entries at once, and scans a block of rows at a time.
    """
    tile_entries, num_empty_rows = (16, 20) if IN_SIMULATOR else (1024, 1100)
    prefixes = [tile_entries, 0, 0, tile_entries - 1, 0, 1, *[0] * num_empty_rows]
    prefixes += [tile_entries + 1, 0, tile_entries - 2, 0, 1, 3 * tile_entries, 0]
    has_entries = np.array(prefixes) > 0
    capacity = sum(prefixes)
    launch = plan_launch(
        requests=np.where(has_entries, 2, request_of_empty_rows),
        # A padding row's prefix counts for nothing, and neither does a negative one.
        prefixes=np.where(has_entries, prefixes, 5 if request_of_empty_rows == 0 else -5),
        extends=np.arange(len(prefixes)) % 3 - 1,
        table=np.arange(9 * tile_entries).reshape(3, 3 * tile_entries),
        **{name: [UNTOUCHED] * capacity for name in OUTPUTS["plan"][:4]},
        write_offsets=[UNTOUCHED] * (len(prefixes) + 1),
        write_seed_slot_indices=[UNTOUCHED] * len(prefixes),
    )
    wanted = outcome(REFERENCE, "plan", launch)
    assert wanted["enable"].tolist() == [1]
    assert wanted["verify_num_valid"].tolist() == [capacity]
    assert_same_outcome(implementation, outcome(implementation, "plan", launch), wanted)
