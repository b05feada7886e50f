"""What sequences hold, element by element."""

from __future__ import annotations

import numpy as np

from kvaudit.core.held_slots import JUDGED_STATES, HeldSlots
from kvaudit.core.sequences import SequenceState
from tests.helpers.worlds import World, build, fixture_f


def _held(world: World, **options: object) -> HeldSlots:
    return HeldSlots(sequences=world.sequences(), **options)


def test_where_all_is_held_the_files_own_array_is_used() -> None:
    sequences = fixture_f().sequences()
    assert HeldSlots(sequences=sequences).slots is sequences.slots


def test_only_what_lies_below_kv_len_in_a_counted_state_is_held() -> None:
    world = fixture_f()
    world.request_of("A").kv_len = 3
    world.request_of("B").state = SequenceState.FINISHED
    assert _held(world).slots.tolist() == [2, 3, 4]
    assert _held(world, states=JUDGED_STATES).slots.tolist() == [2, 3, 4, 6, 7, 8, 9]


def test_a_window_cuts_the_front() -> None:
    held = _held(fixture_f(), window=3)
    assert held.slots.tolist() == [3, 4, 5, 7, 8, 9]
    elements = np.arange(6)
    assert held.positions_of(elements).tolist() == [1, 2, 3, 1, 2, 3]
    assert held.prev_slots_of(elements).tolist() == [-1, 3, 4, -1, 7, 8]
    assert held.request_ids_of(elements) == ["A"] * 3 + ["B"] * 3


def test_a_start_position_moves_positions_and_not_slots() -> None:
    world = fixture_f()
    request = world.request_of("B")
    request.slots, request.start_position = request.slots[1:], 1
    held = _held(world)
    assert held.slots.tolist() == [2, 3, 4, 5, 7, 8, 9]
    assert held.positions_of(np.array([4, 6])).tolist() == [1, 3]


def test_histories_are_equal_exactly_for_equal_tokens_up_to_a_position() -> None:
    world = (
        build()
        .request("A", tokens=[1, 2, 3], slots=[2, 3, 4])
        .request("B", tokens=[1, 2, 9], slots=[5, 6, 7])
        .request("C", tokens=[2, 1, 3], slots=[8, 9, 10])
        .done()
    )
    digests, known = _held(world).histories_of(np.arange(9))
    assert known.all()
    assert digests[:2].tolist() == digests[3:5].tolist()
    assert len(set(digests.tolist())) == 7


def test_unknown_and_missing_tokens_make_a_history_unknown() -> None:
    world = fixture_f()
    world.request_of("A").tokens[1] = -1
    del world.request_of("B").tokens[3]
    _, known = _held(world).histories_of(np.arange(8))
    assert known.tolist() == [True, False, False, False, True, True, True, False]


def test_extra_keys_are_compared_as_numbers() -> None:
    world = fixture_f()
    world.requests.append(world.requests[0])
    world.request_of("B").extra_key = "lora-1"
    assert _held(world).extra_key_numbers.tolist() == [0, 1, 0]


def test_each_owner_is_named_once_in_input_order() -> None:
    held = _held(fixture_f())
    assert held.owner_names_of(np.array([7, 0, 5, 1])) == ["A", "B"]
    assert held.owner_names_of(np.array([6])) == ["B"]
    assert held.owner_names_of(np.empty(0, np.int64)) == []
