from __future__ import annotations

import numpy as np

from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_choices import MatchBy
from kvaudit.runner.compare.columns import LegColumns
from kvaudit.runner.compare.leg_bytes import MAX_KEPT, LegBytes, LegPlaces
from kvaudit.runner.compare.match import Matcher
from tests.helpers.comparing import HOST, THERE, dumped, side_of


def _leg() -> LegBytes:
    matching = Matcher(
        side_of(dumped()),
        side_of(dumped(THERE, key=HOST), "B"),
        kind=LegKind.TRANSFER,
        match=MatchBy.AUTO,
    ).run()
    nothing = np.zeros(len(matching.pairs), dtype=np.bool_)
    return LegBytes(
        left=0,
        right=1,
        matching=matching,
        columns=LegColumns(compared=("kv.k.0", "kv.v.0"), left_out={}),
        pages=None,
        differs=nothing,
        restored=nothing.copy(),
    )


def test_pairs_that_are_right_after_all_are_taken_back_everywhere() -> None:
    leg = _leg()
    leg.note("kv.k.0", np.array([1, 3]))
    leg.note("kv.v.0", np.array([3]))
    leg.sources, leg.zero = np.array([-1, 5]), np.array([True, False])
    leg.clear(np.array([1]))
    assert {name: pairs.tolist() for name, pairs in leg.differing.items()} == {
        "kv.k.0": [3],
        "kv.v.0": [3],
    }
    assert np.flatnonzero(leg.differs).tolist() == [3]
    assert (leg.sources.tolist(), leg.zero.tolist()) == ([5], [False])
    leg.clear(np.array([3]))
    assert not leg.differing
    assert not leg.sources.size


def test_differing_pairs_are_kept_up_to_a_limit_and_all_are_counted() -> None:
    leg = _leg()
    leg.differs = np.zeros(MAX_KEPT + 5, dtype=np.bool_)
    leg.note("kv.k.0", np.arange(MAX_KEPT + 5))
    assert len(leg.differing["kv.k.0"]) == MAX_KEPT
    assert leg.differs.all()


def test_places_that_follow_one_another_are_a_slice() -> None:
    leg = _leg()
    ranks = np.zeros(16, dtype=np.int64)
    ranks[leg.matching.pairs.right_rows] = np.arange(8)
    places = LegPlaces.of(leg, np.arange(16), ranks)
    assert places.right == slice(0, 8)
    assert np.array_equal(places.left, leg.matching.pairs.left_rows)
    assert leg.num_due == leg.num_compared == 8
