from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_choices import MatchBy
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import SnapshotInconsistent
from kvaudit.runner.compare.match import Matcher
from kvaudit.runner.compare.matching import Matching
from kvaudit.runner.compare.side import Side
from tests.helpers.comparing import HERE, HOST, THERE, clear, dumped, side_of

PLACES = dict(zip([*THERE[0], *THERE[1]], [*HERE[0], *HERE[1]], strict=True))


def _matched(
    left: Side, right: Side, *, match: MatchBy = MatchBy.AUTO, kind: LegKind = LegKind.TRANSFER
) -> tuple[Matching, dict[int, int]]:
    matching = Matcher(left, right, kind=kind, match=match).run()
    pairs = matching.pairs
    slots = zip(
        right.snapshot.slots[pairs.right_rows].tolist(),
        left.snapshot.slots[pairs.left_rows].tolist(),
        strict=True,
    )
    return matching, dict(slots)


@pytest.mark.parametrize("match", [MatchBy.AUTO, MatchBy.CONTENT, MatchBy.REQUEST])
def test_relocated_slots_find_each_other(match: MatchBy) -> None:
    matching, places = _matched(
        side_of(dumped()), side_of(dumped(THERE, key=HOST), "B"), match=match
    )
    assert places == PLACES
    assert (matching.found == matching.due).all()
    assert matching.due.sum() == matching.wanted.sum() == 8
    assert np.all(np.diff(matching.pairs.right_rows) > 0)


@pytest.mark.parametrize("sequences", [True, False])
def test_content_is_found_without_sequences_too(sequences: bool) -> None:
    left, right = dumped(), dumped(THERE, key=HOST)
    matching, places = _matched(
        side_of(left, sequences=sequences), side_of(right, "B", sequences=sequences)
    )
    assert places == PLACES
    assert matching.by["content"] == 8


def test_a_lost_record_is_matched_by_its_request_or_not_at_all() -> None:
    damaged = dumped(THERE, key=HOST)
    clear(damaged, [12, 13])
    matching, places = _matched(side_of(dumped()), side_of(damaged, "B"))
    assert places == PLACES
    assert matching.by == {"content": 6, "request": 2}
    bare, places = _matched(
        side_of(dumped(), sequences=False), side_of(damaged, "B", sequences=False)
    )
    assert set(PLACES) - set(places) == {12, 13}
    assert (bare.due & ~bare.found).sum() == 2


def test_a_slot_with_another_requests_content_is_held_against_its_own_request() -> None:
    damaged = dumped(THERE, key=HOST)
    for values in damaged.records.values():
        values[10] = values[3]
    _, places = _matched(side_of(dumped()), side_of(damaged, "B"))
    assert places[10] == PLACES[10]


def test_without_records_and_tokens_slots_of_one_number_are_compared() -> None:
    left, right = (dumped(canary=()).snapshot() for _ in range(2))
    matching, places = _matched(side_of(left), side_of(right, "B"))
    assert matching.by == {"slot": 15}
    assert places == {slot: slot for slot in range(1, 16)}


def test_slots_of_another_place_are_not_matched_by_their_number_unasked() -> None:
    left, right = (
        side_of(dumped(canary=()).snapshot()),
        side_of(dumped(canary=(), key=HOST).snapshot(), "B"),
    )
    matching, places = _matched(left, right)
    assert not places
    assert "--match slot" in matching.lacks
    assert len(_matched(left, right, match=MatchBy.SLOT)[1]) == 15


def test_at_another_step_slots_of_one_number_need_not_hold_the_same() -> None:
    left, right = (dumped(canary=()).snapshot() for _ in range(2))
    matching, places = _matched(side_of(left), side_of(right, "B"), kind=LegKind.STEPS)
    assert not places
    assert "--match slot" in matching.lacks


def test_ranks_are_matched_by_request_else_by_slot() -> None:
    ranks = [dumped(key=PoolKey(rank=rank)) for rank in range(2)]
    matching, _ = _matched(side_of(ranks[0]), side_of(ranks[1], "B"), kind=LegKind.RANKS)
    assert matching.by == {"request": 8}
    matching, _ = _matched(
        *(side_of(rank, letter, sequences=False) for rank, letter in zip(ranks, "AB", strict=True)),
        kind=LegKind.RANKS,
    )
    assert matching.by == {"slot": 8}


def test_slots_in_one_dump_alone_are_said() -> None:
    left = side_of(dumped().snapshot(slots=range(8)))
    right = side_of(dumped().snapshot(slots=range(4, 12)), "B")
    matching, places = _matched(left, right, match=MatchBy.SLOT)
    assert sorted(places) == [4, 5, 6, 7]
    assert matching.unchecked == ["8 slots of one dump alone"]


@pytest.mark.parametrize("canary", [("k.tail",), ()])
@pytest.mark.parametrize("sequences", [True, False])
def test_what_the_left_dump_holds_in_slots_that_the_right_one_lacks_is_asked_for(
    canary: tuple[str, ...], sequences: bool
) -> None:
    left, right = dumped(canary=canary), dumped(canary=canary, key=PoolKey(rank=1))
    matching, places = _matched(
        side_of(left, sequences=sequences),
        side_of(right.snapshot(slots=(2, 3)), "B"),
        match=MatchBy.SLOT,
        kind=LegKind.RANKS,
    )
    assert sorted(places) == [2, 3]
    holding = range(1, 16) if not canary and not sequences else range(2, 10)
    assert np.flatnonzero(matching.due).tolist() == list(holding)
    assert np.flatnonzero(matching.found).tolist() == [2, 3]


@pytest.mark.parametrize("match", [MatchBy.CONTENT, MatchBy.REQUEST, MatchBy.SLOT])
def test_what_cannot_be_matched_says_why(match: MatchBy) -> None:
    bare = dumped(canary=()).snapshot(slots=(2, 3))
    other = dumped(canary=()).snapshot(slots=(8, 9))
    matching, places = _matched(side_of(bare), side_of(other, "B"), match=match)
    assert not places
    assert matching.lacks


def test_slots_of_pages_of_another_size_are_not_matched_by_number() -> None:
    left = dumped(canary=()).snapshot()
    with pytest.raises(SnapshotInconsistent, match="pages of 2"):
        _matched(side_of(left), side_of(replace(left, page_size=4), "B"), match=MatchBy.SLOT)


def test_extra_keys_of_one_dump_alone_are_said() -> None:
    left, right = dumped(extra_keys=("lora", None)), dumped(THERE, key=HOST)
    matching, _ = _matched(side_of(left), side_of(right, "B", sequences=False))
    assert any("extra keys" in sentence for sentence in matching.unchecked)
