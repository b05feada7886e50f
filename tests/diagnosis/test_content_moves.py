"""How misplaced content moved."""

from __future__ import annotations

import pytest

from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.content_moves import Move, MovedContent
from kvaudit.diagnosis.failures import Failures
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.long_pools import long_pool, page_of
from tests.helpers.worlds import World, fixture_f


def _moved(world: World, *, tokens: bool = True) -> list[MovedContent]:
    (view,) = Failures(failing(world, tokens=tokens)).views
    return view.moved


def test_pages_that_went_round_are_one_group_and_another_pair_another() -> None:
    world = long_pool(16)
    corruptions.permute_pages(world, [page_of(world, "R0", number) for number in (0, 1, 3)])
    corruptions.swap_pages(world, page_of(world, "R1", 0), page_of(world, "R2", 2))
    groups = _moved(world)
    assert [group.move for group in groups] == [Move.PAGES] * 2
    assert sorted(len(group.rows) for group in groups) == [32, 48]


def test_a_page_on_which_a_sound_record_stayed_did_not_change_places() -> None:
    world = long_pool(16)
    one, other = page_of(world, "R0", 0) * 16, page_of(world, "R1", 0) * 16
    slots = list(range(1, 16))
    corruptions.copy_slots(
        world,
        [one + offset for offset in slots] + [other + offset for offset in slots],
        [other + offset for offset in slots] + [one + offset for offset in slots],
    )
    assert {group.move for group in _moved(world)} == {Move.FOREIGN}


@pytest.mark.parametrize("by", [1, -1])
def test_slots_of_one_sequence_have_their_shift(by: int) -> None:
    world = long_pool(16)
    corruptions.shift_slots(world, "R1", first=20, by=by)
    (group,) = _moved(world)
    assert (group.move, group.shift) == (Move.SLOTS, by)


@pytest.mark.parametrize(
    ("state", "move"),
    [
        (SequenceState.RUNNING, Move.FOREIGN),
        (SequenceState.CACHED, Move.FOREIGN),
        (SequenceState.FINISHED, Move.EARLIER),
    ],
)
def test_the_state_of_the_home_tells_a_foreign_sequence_from_an_earlier_one(
    state: SequenceState, move: Move
) -> None:
    world = fixture_f()
    corruptions.copy_chain(world, "B", "A")
    world.request_of("B").state = state
    (group,) = _moved(world)
    assert (group.move, group.rows.tolist(), group.homes.tolist()) == (
        move,
        [2, 3, 4, 5],
        [6, 7, 8, 9],
    )


def test_a_sound_pool_moved_nothing() -> None:
    world = fixture_f()
    corruptions.overwrite_slot(world, 7, token=99, position=1, prev_hash=12345)
    assert not _moved(world)
