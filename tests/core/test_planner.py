"""Entries of sequences and plans against a slow model, block by block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.core import planner
from kvaudit.core.entries import Scope
from kvaudit.core.layout import SlotRanges
from kvaudit.core.planner import SequenceEntries, window_of
from kvaudit.core.sequences import SequenceState
from tests.helpers.entry_rows import Row, rows_of
from tests.helpers.worlds import Request, fixture_f, sequences_of


def _slow(
    requests: list[Request],
    *,
    token_offset: int = 0,
    position_offset: int = 0,
    window: int | None = None,
    slot_shift: int = 0,
) -> list[Row]:
    """The rules of DESIGN.md 3 and 4, an entry at a time."""
    rows: list[Row] = []
    for request in requests:
        if request.state is SequenceState.IN_FLIGHT:
            continue
        start = request.start_position
        first = start if window is None else max(start, request.kv_len - window)
        for position in range(first, min(request.kv_len, start + len(request.slots))):
            slots = [slot if slot < 0 else slot + slot_shift for slot in request.slots]
            head = -1 if position == 0 else 0
            prev = slots[position - 1 - start] if position > first else head
            at = position + token_offset
            token = request.tokens[at] if 0 <= at < len(request.tokens) else -1
            rows.append(
                (len(rows), slots[position - start], prev, token, position + position_offset)
            )
    return rows


requests_strategy = st.lists(
    st.builds(
        Request,
        request_id=st.sampled_from("ABC"),
        tokens=st.lists(st.integers(-1, 50), max_size=6),
        slots=st.lists(st.integers(-1, 30), max_size=6),
        kv_len=st.integers(0, 9),
        start_position=st.integers(0, 4),
        state=st.sampled_from([None, SequenceState.RUNNING, SequenceState.IN_FLIGHT]),
    ),
    max_size=5,
)


@given(
    requests=requests_strategy,
    token_offset=st.integers(-2, 2),
    position_offset=st.integers(-1, 2),
    window=st.none() | st.integers(1, 5),
    slot_shift=st.sampled_from([0, 16]),
    block=st.integers(1, 7),
)
def test_sequences_give_the_entries_of_the_slow_model(requests, block, **options) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "MAX_BLOCK_ENTRIES", block)
        source = SequenceEntries(sequences=sequences_of(requests), **options)
        blocks = list(source.blocks())
        assert rows_of(iter(blocks)) == _slow(requests, **options)
        assert all(len(part) <= block for part in blocks)
        assert source.num_entries == sum(map(len, blocks))
        slots = [slot for part in source.slot_blocks() for slot in part.tolist()]
        assert slots == [row[1] for row in rows_of(iter(blocks))]


@given(requests=requests_strategy, block=st.integers(1, 7))
def test_a_scope_leaves_entries_out_and_keeps_their_numbers(requests, block) -> None:
    names = [request.request_id for request in requests for row in _slow([request])]
    expected = [
        row
        for row, name in zip(_slow(requests), names, strict=True)
        if name in "AB" and 3 <= row[1] <= 20
    ]
    scope = Scope(request_ids=frozenset("AB"), slots=SlotRanges.parse("3-20"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "MAX_BLOCK_ENTRIES", block)
        source = SequenceEntries(sequences=sequences_of(requests), scope=scope)
        assert rows_of(source.blocks()) == expected
        assert source.num_entries == len(expected)
        numbers = np.array([row[0] for row in expected], dtype=np.int64)
        assert source.request_ids_of(numbers) == [names[row[0]] for row in expected]


def test_a_map_to_a_window_pool_does_not_bound_the_full_pool() -> None:
    world = fixture_f()
    assert window_of(world.snapshot(window=3)) == 3
    world.evidence["swa_slot"] = np.arange(16)
    assert window_of(world.snapshot(window=3)) is None


def test_the_sequences_own_arrays_stay_as_they_are() -> None:
    sequences = fixture_f().sequences()
    before = sequences.slots.copy()
    sequences.slots.flags.writeable = False
    sequences.tokens.flags.writeable = False
    assert len(list(SequenceEntries(sequences=sequences).blocks())) == 1
    assert sequences.slots.tolist() == before.tolist()


def test_entries_are_the_elements_that_live_and_finished_sequences_hold() -> None:
    world = fixture_f()
    world.request_of("A").kv_len, world.request_of("A").slots = 9, [2, 3, 4]
    entries = SequenceEntries(sequences=world.sequences(), window=2)
    assert entries.held.slots.tolist() == [8, 9]
    assert [block.slot_indices.tolist() for block in entries.blocks()] == [[8, 9]]
    assert entries.num_positions.tolist() == [2, 2]
    assert entries.request_ids_of(np.array([1])) == ["B"]
