"""What the expectations claim of each slot."""

from __future__ import annotations

import numpy as np

from kvaudit.core.claims import NO_ROW, UNREACHABLE_ROW, Claims, claims_of
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.sequences import SequenceState
from kvaudit.runner.expectations import expectations_of
from tests.helpers.worlds import World, build, fixture_f


def _claims(world: World, *, slots: list[int] | None = None, plan: bool = False) -> Claims:
    snapshot = world.snapshot(slots=slots)
    given = {"plans": (world.plan(padding=2),)} if plan else {"sequences": (world.sequences(),)}
    pool = AuditedPool(snapshot=snapshot, **given)
    return claims_of(expectations_of(pool, ALL_ENTRIES).sources, snapshot)


def test_every_entry_is_a_claim_with_its_row_and_its_predecessor() -> None:
    for plan in (False, True):
        claims = _claims(fixture_f(), plan=plan)
        assert claims.slots.tolist() == claims.rows.tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
        assert claims.prev_rows.tolist() == [NO_ROW, 2, 3, 4, NO_ROW, 6, 7, 8]
        assert claims.tokens.tolist() == [11, 12, 13, 14, 21, 22, 23, 24]
        assert claims.positions.tolist() == [0, 1, 2, 3] * 2
        assert claims.request_ids_of(np.array([7, 0])) == ["B", "A"]


def test_a_slot_that_the_snapshot_lacks_has_no_row_and_is_no_predecessor() -> None:
    claims = _claims(fixture_f(), slots=[0, 2, 4, 5])
    assert claims.rows.tolist() == [1, NO_ROW, 2, 3] + [NO_ROW] * 4
    assert claims.prev_rows[:4].tolist() == [NO_ROW, 1, UNREACHABLE_ROW, 2]


def test_rows_give_the_claims_on_them_and_those_that_follow_them() -> None:
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    claims = _claims(builder.request("C", tokens=[11, 12, 33], slots=[2, 3, 8], shared=2).done())
    assert claims.of_rows(np.array([3])).tolist() == [1, 5]
    assert claims.after_rows(np.array([3, 3])).tolist() == [2, 6]


def test_claims_of_one_sequence_have_one_number() -> None:
    world = fixture_f()
    assert np.unique(_claims(world).sequence_numbers).size == 2
    world.request_of("A").slots[1] = 0
    assert np.unique(_claims(world).sequence_numbers).size == 3


def test_states_are_those_of_the_sequences_and_a_plan_knows_none() -> None:
    world = fixture_f()
    world.request_of("B").state = SequenceState.FINISHED
    numbers = np.array([0, 4])
    assert _claims(world).states_of(numbers) == [None, SequenceState.FINISHED]
    assert _claims(world, plan=True).states_of(numbers) == [None, None]


def test_slots_of_a_pool_that_uses_slot_0_are_the_engines() -> None:
    claims = _claims(build(reserved="none").request("A", tokens=[11, 12], slots=[0, 1]).done())
    assert (claims.slots.tolist(), claims.prev_rows.tolist()) == ([0, 1], [NO_ROW, 0])


def test_no_source_claims_nothing() -> None:
    claims = claims_of((), fixture_f().snapshot())
    assert len(claims) == 0
    assert claims.of_rows(np.array([2])).tolist() == []
