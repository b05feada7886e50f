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


def test_the_first_layer_alone_proves_no_home() -> None:
    """There the bytes are of a token and its position, whatever came before."""
    world = _three(None)
    for name, data in world.kv.items():
        data[3] = data[7] if name.endswith(".0") else data[3] ^ 1
    assert not _moved(world)


def test_every_layer_that_differs_has_to_agree() -> None:
    world = _three(None)
    for data in world.kv.values():
        data[3] = data[7]
    assert [moved.homes.tolist() for moved in _moved(world)] == [[7]]
    world.kv["kv.v.0"][3] ^= 1
    assert not _moved(world)
