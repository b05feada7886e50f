"""From rows to claims and on through sequences."""

from __future__ import annotations

import numpy as np

from kvaudit.core.claims import NO_ROW, claims_of
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.diagnosis.claim_walk import NO_CLAIM, ClaimWalk
from kvaudit.runner.expectations import expectations_of
from tests.helpers.worlds import World, build, fixture_f


def _walk(world: World, *, tokens: bool = True) -> ClaimWalk:
    pool = world.dataset(tokens=tokens).pools[0]
    claims = claims_of(expectations_of(pool, ALL_ENTRIES).sources, pool.snapshot)
    return ClaimWalk(claims=claims, records=world.records["k.tail"])


def _forked() -> World:
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    return builder.request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2).done()


def test_a_shared_row_has_the_claim_of_the_first_sequence() -> None:
    walk = _walk(_forked())
    assert walk.first_claims[[2, 3, 8, 10]].tolist() == [0, 1, 6, NO_CLAIM]
    assert (walk.next_claim(2), walk.next_claim(3), walk.next_claim(7)) == (3, NO_CLAIM, NO_CLAIM)


def test_a_record_fits_by_its_position_and_by_a_token_that_is_known() -> None:
    walk, blind = _walk(_forked()), _walk(_forked(), tokens=False)
    assert (walk.fits(2, 4), walk.fits(2, 8), walk.fits(3, 4)) == (True, False, False)
    assert blind.fits(2, 8)


def test_behind_a_fork_the_token_tells_the_branch() -> None:
    walk = _walk(_forked())
    assert (walk.behind(3, 4), walk.behind(3, 8), walk.behind(3, 9)) == (4, 8, NO_ROW)


def test_a_rows_place_is_where_its_own_sequence_has_its_position() -> None:
    world = fixture_f()
    world.records["k.tail"][[7, 8]] = world.records["k.tail"][[8, 2]]
    walk = _walk(world)
    assert walk.place_for(7) == 6
    assert walk.place_for(8) == NO_CLAIM
    assert walk.place_for(12) == NO_CLAIM


def test_a_head_that_lacks_its_content_comes_first_and_then_the_own_one() -> None:
    world = fixture_f()
    walk = _walk(world, tokens=False)
    assert walk.head_for(6, rank=lambda _: 0) == 6
    assert walk.head_for(6, rank=lambda row: 2 * (row == 6)) == 2
    assert walk.head_for(6, rank=lambda _: 2) == NO_ROW
    assert _walk(world).head_for(6, rank=lambda _: 2) == 6
    assert np.array_equal(walk.records, world.records["k.tail"])


def test_what_is_left_of_a_sequence_begins_with_what_a_row_holds() -> None:
    world = fixture_f()
    for request in world.requests:
        request.start_position, request.slots = 2, request.slots[2:]
    walk = _walk(world)
    assert walk.cut_off_for(4, rank=lambda _: 0) == 4
    assert walk.cut_off_for(4, rank=lambda _: 1) == NO_ROW
    assert walk.cut_off_for(5, rank=lambda _: 0) == NO_ROW
    assert _walk(world, tokens=False).cut_off_for(8, rank=lambda row: int(row == 8)) == 4
