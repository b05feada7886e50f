"""Bytes that stand in another slot than the one whose stamp they fit."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.byte_moves import ByteMove, MovedBytes, moved_bytes
from kvaudit.diagnosis.failures import Failures
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, build, fixture_f


def _moved(world: World) -> list[MovedBytes]:
    return moved_bytes(Failures(failing(world)).byte_view)


def _three(state: SequenceState | None) -> World:
    return (
        build(stamps=F_STAMPS)
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("B", tokens=[21, 22, 23, 24], slots=[6, 7, 8, 9], state=state)
        .done()
    )


@pytest.mark.parametrize("options", [{"stamps": F_STAMPS}, {"mode": RealKvHashMode.ALL}])
def test_pages_that_changed_places_are_one_group(options: dict[str, object]) -> None:
    world = fixture_f(**options)
    corruptions.swap_pages(world, 1, 2, records=False)
    (moved,) = _moved(world)
    assert moved.move is ByteMove.PERMUTED
    assert (moved.rows.tolist(), moved.homes.tolist()) == ([2, 3, 4, 5], [4, 5, 2, 3])


@pytest.mark.parametrize(
    ("state", "move"),
    [(None, ByteMove.FOREIGN), (SequenceState.FINISHED, ByteMove.EARLIER)],
    ids=["live", "finished"],
)
def test_bytes_of_another_sequence_are_told_by_its_state(
    state: SequenceState | None, move: ByteMove
) -> None:
    world = _three(state)
    for data in world.kv.values():
        data[[3, 4]] = data[[7, 8]]
    (moved,) = _moved(world)
    assert moved.move is move
    assert (moved.rows.tolist(), moved.homes.tolist()) == ([3, 4], [7, 8])


def test_bytes_of_a_slot_that_nobody_claims_are_an_earlier_owners() -> None:
    world = _three(None)
    world.requests.pop()
    for data in world.kv.values():
        data[3] = data[7]
    (moved,) = _moved(world)
    assert (moved.move, moved.homes.tolist()) == (ByteMove.EARLIER, [7])


def test_content_that_is_nowhere_else_has_not_moved() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.overwrite_bytes(world, 7)
    assert not _moved(world)


def test_a_storm_ends_in_one_group() -> None:
    world = build(num_slots=2300, page_size=1, num_layers=1, stamps=("kv.k.0",))
    world = world.request("A", tokens=range(9, 2209), slots=range(2, 2202)).done()
    for data in world.kv.values():
        data[2:2202] = data[2:2202].reshape(-1, 2, 16)[:, ::-1].reshape(-1, 16)
    groups = _moved(world)
    assert [len(moved.rows) for moved in groups] == [2] * 1000 + [200]
