"""Which plan rows judge a snapshot, and several sequence files as one."""

from __future__ import annotations

from kvaudit.constants import LaunchTag
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.layout import SlotRanges
from kvaudit.core.plan import PlanDump
from kvaudit.core.snapshot import PoolKey
from kvaudit.runner.expectations import (
    expectations_of,
    launches_of_step,
    merged_sequences,
    scope_of,
    swa_pool_of,
)
from tests.helpers.worlds import fixture_f, sequences_of

HEAD, TAIL, SWEEP = LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL, LaunchTag.SWEEP_K_FULL


def _dump(*rows: tuple[int | None, tuple[LaunchTag, ...] | None]) -> PlanDump:
    world = fixture_f()
    return PlanDump(launches=[world.plan(step=step, tags=tags).launches[0] for step, tags in rows])


def _chosen(plan: PlanDump, step: int | None) -> tuple[list[tuple[object, object]], str]:
    rows, note = launches_of_step(plan, step, kind=PoolKind.FULL)
    return [(launch.step, launch.tags) for launch in rows], note


def test_the_rows_of_the_snapshots_step_are_used() -> None:
    plan = _dump((1, (HEAD, TAIL)), (2, (HEAD, TAIL)), (2, (SWEEP,)))
    assert _chosen(plan, 2) == ([(2, (HEAD, TAIL)), (2, (SWEEP,))], "")


def test_else_the_last_step_of_each_tag_is_used_and_said_so() -> None:
    plan = _dump((1, (HEAD, TAIL, SWEEP)), (2, (HEAD, TAIL)), (3, (HEAD,)))
    rows, note = _chosen(plan, 9)
    assert rows == [(1, (SWEEP,)), (2, (TAIL,)), (3, (HEAD,))]
    assert "step 9" in note
    assert "step 1, step 2, step 3" in note


def test_a_snapshot_without_a_step_says_so() -> None:
    rows, note = _chosen(_dump((1, None), (2, None)), None)
    assert rows == [(2, None)]
    assert "gives no step" in note


def test_launches_of_the_other_pool_kind_are_another_pools() -> None:
    plan = _dump((1, (TAIL, LaunchTag.TAIL_K_SWA)), (1, (LaunchTag.TAIL_V_SWA,)))
    assert _chosen(plan, 1) == ([(1, (TAIL,))], "")


def test_a_plan_without_a_row_is_no_expectation() -> None:
    world = fixture_f()
    pool = AuditedPool(snapshot=world.snapshot(), plans=(PlanDump(launches=[]),))
    assert expectations_of(pool, ALL_ENTRIES).sources == ()


def test_sequence_files_are_joined_in_order() -> None:
    world = fixture_f()
    whole = world.sequences()
    joined = merged_sequences([sequences_of([request]) for request in world.requests])
    assert joined is not None
    assert joined.request_ids == ["A", "B"]
    for name in ("token_offsets", "tokens", "slot_offsets", "slots", "kv_lens"):
        assert getattr(joined, name).tolist() == getattr(whole, name).tolist()
    assert merged_sequences([whole]) is whole
    assert merged_sequences([]) is None


def test_every_request_of_sequences_and_plans_is_known() -> None:
    world = fixture_f()
    plan = world.plan()
    world.requests.pop()
    pool = AuditedPool(snapshot=world.snapshot(), sequences=(world.sequences(),), plans=(plan,))
    assert expectations_of(pool, ALL_ENTRIES).request_ids() == {"A", "B"}


FULL = PoolKey(instance="decode-0", rank=0)
SWA = PoolKey(instance="decode-0", rank=0, pool="SWA", pool_kind=PoolKind.SWA)


def _pool(key: PoolKey) -> AuditedPool:
    return fixture_f(key=key).dataset().pools[0]


def test_the_window_pool_is_the_one_of_the_same_engine_rank_and_step() -> None:
    full, swa = _pool(FULL), _pool(SWA)
    other = _pool(PoolKey(instance="decode-0", rank=1, pool_kind=PoolKind.SWA))
    assert swa_pool_of(full, [full, other, swa]) is swa.snapshot
    assert swa_pool_of(full, [full, other]) is None
    assert swa_pool_of(full, [full, swa, swa]) is None


def test_the_scope_is_what_the_options_name() -> None:
    scope = scope_of(AuditOptions(request_ids=("A", "B"), slots=SlotRanges.parse("3")))
    assert scope.request_ids == {"A", "B"}
    assert scope.slots == SlotRanges.parse("3")
