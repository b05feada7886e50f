from __future__ import annotations

import numpy as np
import pytest

from kvaudit.runner.compare.join import join_contents, join_requests
from kvaudit.runner.compare.side import Contents
from tests.helpers.comparing import HERE, HOST, THERE, dumped, side_of


def _contents(*ids: int) -> Contents:
    return Contents(rows=np.arange(len(ids)), ids=np.array(ids, dtype=np.uint64))


def test_each_right_content_finds_its_own_on_the_left() -> None:
    join = join_contents(_contents(7, 5, 9), _contents(9, 7, 1))
    assert join.left_places.tolist() == [2, 0, -1]
    assert join.left_found.tolist() == [True, False, True]
    assert not join.ambiguous.any()


def test_of_a_content_that_is_there_several_times_the_nth_go_together_and_all_are_found() -> None:
    join = join_contents(_contents(5, 3, 5), _contents(5, 5, 5, 3))
    assert join.left_places.tolist() == [0, 2, 2, 1]
    assert join.ambiguous.tolist() == [True, True, True, False]
    assert join.left_found.all()


@pytest.mark.parametrize(("left", "right"), [((), (1, 2)), ((1, 2), ()), ((), ())])
def test_nothing_joins_with_nothing(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    join = join_contents(_contents(*left), _contents(*right))
    assert (join.left_places == -1).all()
    assert not join.left_found.any()
    assert len(join.left_found) == len(left)


def test_joins_agree_with_a_look_up_of_every_content() -> None:
    rng = np.random.default_rng(3)
    left, right = rng.integers(0, 40, 60).tolist(), rng.integers(0, 50, 70).tolist()
    join = join_contents(_contents(*left), _contents(*right))
    for number, content in enumerate(right):
        places = [at for at, other in enumerate(left) if other == content]
        seen = right[:number].count(content)
        expected = places[min(seen, len(places) - 1)] if places else -1
        assert join.left_places[number] == expected
        assert join.ambiguous[number] == (len(places) > 1)
    assert join.left_found.tolist() == [content in right for content in left]


def test_positions_of_a_request_are_those_that_both_dumps_have_slots_of() -> None:
    short = dumped(THERE, key=HOST)
    short.request_of("A").kv_len = 3
    short.request_of("B").request_id = "other"
    left, right = side_of(dumped()), side_of(short, "B")
    join = join_requests(left, right)
    assert join.positions.tolist() == [0, 1, 2]
    assert left.held.slots[join.left_elements].tolist() == list(HERE[0][:3])
    assert right.held.slots[join.right_elements].tolist() == list(THERE[0][:3])
    assert (join.left_only, join.right_only) == (["B"], ["other"])


def test_sequences_of_one_name_go_together_in_their_order() -> None:
    left, right = dumped(), dumped(THERE, key=HOST)
    for dump in (left, right):
        dump.request_of("B").request_id = "A"
    one, other = side_of(left), side_of(right, "B")
    join = join_requests(one, other)
    assert other.held.slots[join.right_elements].tolist() == [*THERE[0], *THERE[1]]
    assert one.held.slots[join.left_elements].tolist() == [*HERE[0], *HERE[1]]


def test_without_sequences_on_both_sides_there_is_no_join_of_requests() -> None:
    assert join_requests(side_of(dumped()), side_of(dumped(), "B", sequences=False)) is None
