"""Coverage arithmetic, demands and exit codes."""

from __future__ import annotations

import pytest

from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.report import Report, Verdict
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import DumpMoment, PoolKey
from tests.helpers import corruptions
from tests.helpers.worlds import World, fixture_f

ALL = RealKvHashMode.ALL


def _planned_checked(report: Report, family: Family) -> tuple[int, int] | None:
    covered = report.coverage.families.get(family)
    return None if covered is None else (covered.planned, covered.checked)


def _planned(world: World, **plan: object) -> Dataset:
    return Dataset(pools=[AuditedPool(snapshot=world.snapshot(), plans=(world.plan(**plan),))])


def test_without_expectations_records_and_stamps_nothing_is_checked_and_a_way_out_is_named(
    run,
) -> None:
    report = run(Dataset(pools=[AuditedPool(snapshot=fixture_f(canary=()).snapshot())]))
    assert (report.verdict, report.exit_code) == (Verdict.INCOMPLETE, 5)
    assert "--expect" in report.incomplete_reasons[0]
    assert all(covered is None for covered in report.coverage.families.values())
    assert report.coverage.slots_checked == 0


def test_one_pool_without_expectations_makes_the_set_incomplete(run) -> None:
    judged = fixture_f(key=PoolKey(rank=0)).dataset().pools[0]
    unjudged = AuditedPool(snapshot=fixture_f(key=PoolKey(rank=1)).snapshot())
    assert run(Dataset(pools=[judged, unjudged])).verdict is Verdict.INCOMPLETE


def test_planned_slots_that_the_dump_lacks_lower_records_and_bytes(run) -> None:
    world = fixture_f(mode=ALL, stamps=("kv.v.0",))
    report = run(world.dataset(snapshot=world.snapshot(slots=[2, 3, 4, 5, 6, 7])))
    assert _planned_checked(report, Family.RECORDS) == (8, 6)
    assert _planned_checked(report, Family.BYTES) == (16, 12)
    assert _planned_checked(report, Family.INDEX) == (8, 8)
    assert report.verdict is Verdict.INCOMPLETE
    assert [finding.rule for finding in report.findings] == ["KV001"]
    assert report.findings[0].slots == [8, 9]
    assert (report.coverage.slots_planned, report.coverage.slots_checked) == (8, 6)


def test_a_lower_demand_accepts_less_coverage(run) -> None:
    world = fixture_f(mode=ALL)
    dataset = world.dataset(snapshot=world.snapshot(slots=[2, 3, 4, 5, 6, 7]))
    assert run(dataset, min_coverage=75.0).verdict is Verdict.CLEAN
    assert run(dataset, min_coverage=75.1).verdict is Verdict.INCOMPLETE
    assert run(dataset, require=frozenset({Family.INDEX})).verdict is Verdict.CLEAN


def test_an_absent_predecessor_is_unreachable_and_lowers_nothing(run) -> None:
    world = fixture_f(mode=ALL)
    dataset = world.dataset(snapshot=world.snapshot(slots=[2, 3, 4, 5, 7, 8, 9]))
    report = run(dataset, min_coverage=80.0)
    records = report.to_dict()["coverage"]["records"]
    assert (records["not_in_snapshot"], records["predecessor_unreachable"]) == (1, 1)
    assert report.verdict is Verdict.CLEAN


@pytest.mark.parametrize("family", [Family.BYTES, Family.IDENTITY])
def test_a_demanded_family_with_nothing_planned_is_incomplete(run, family: Family) -> None:
    report = run(fixture_f().dataset(), require=frozenset({family}))
    assert report.exit_code == 5
    assert str(family) in report.incomplete_reasons[0]


def test_violations_win_over_missing_coverage(run) -> None:
    world = fixture_f(mode=ALL)
    corruptions.zero_slots(world, [3])
    report = run(world.dataset(snapshot=world.snapshot(slots=[2, 3, 4, 5])))
    assert (report.verdict, report.exit_code) == (Verdict.VIOLATIONS, 1)
    assert report.incomplete_reasons


def test_an_index_finding_alone_makes_violations_unless_left_out(run) -> None:
    world = fixture_f()
    world.request_of("A").kv_len = 5
    report = run(world.dataset())
    assert report.verdict is Verdict.VIOLATIONS
    assert report.violations_total == 0
    ignored = run(world.dataset(), ignore=("KV104",))
    assert ignored.verdict is Verdict.CLEAN
    assert ignored.coverage.families[Family.INDEX].scope == "(KV104 left out)"


def test_coverage_findings_never_fail_a_run(run) -> None:
    world = fixture_f(canary=("k.tail", "v.tail"))
    world.records["v.tail"][:] = 0
    report = run(world.dataset(), fail_on=Severity.NOTE)
    assert [finding.rule for finding in report.findings] == ["KV004"]
    assert report.verdict is Verdict.CLEAN


def test_a_disabled_launch_lowers_coverage(run) -> None:
    report = run(_planned(fixture_f(mode=ALL), enable=False, tags=(LaunchTag.TAIL_K_FULL,)))
    assert report.coverage.disabled_launches == 1
    assert _planned_checked(report, Family.RECORDS) == (8, 0)
    assert _planned_checked(report, Family.INDEX) == (8, 0)
    assert report.verdict is Verdict.INCOMPLETE
    assert [finding.rule for finding in report.findings] == ["KV002"]
    assert (report.tags[0].kernel_runs, report.tags[0].slots_run) == (1, 0)


def test_a_launch_without_its_column_is_not_in_the_snapshot(run) -> None:
    tags = (LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL)
    report = run(_planned(fixture_f(mode=ALL), tags=tags))
    assert _planned_checked(report, Family.RECORDS) == (16, 8)
    assert report.coverage.families[Family.RECORDS].details["not_in_snapshot"] == 8


def test_a_sweep_reads_the_tail_with_its_combined_hash(run) -> None:
    world = fixture_f(mode=ALL)
    corruptions.flip_bit(world, "kv.k.0", 7)
    report = run(_planned(world, tags=(LaunchTag.SWEEP_K_FULL,)))
    assert [(row.tag, row.slot) for row in report.violations] == [(LaunchTag.SWEEP_K_FULL, 7)]


def test_a_plan_of_heads_alone_plans_no_combined_hash(run) -> None:
    world = fixture_f(mode=ALL, canary=("k.head", "k.tail"))
    report = run(_planned(world, tags=(LaunchTag.HEAD_K_FULL,)))
    assert _planned_checked(report, Family.BYTES) is None
    assert report.verdict is Verdict.CLEAN


def test_bytes_of_a_mid_step_dump_are_listed_and_not_judged(run) -> None:
    world = fixture_f(mode=ALL, stamps=("kv.v.1",))
    corruptions.flip_bit(world, "kv.v.1", 7)
    corruptions.flip_bit(world, "kv.k.0", 7)
    report = run(world.dataset(snapshot=world.snapshot(at=DumpMoment.MID_STEP)))
    assert report.violations_total == 0
    assert report.verdict is Verdict.INCOMPLETE
    assert _planned_checked(report, Family.BYTES) == (16, 0)
    (finding,) = report.findings
    assert (finding.rule, finding.severity) == ("KV001", Severity.WARNING)
    assert finding.evidence["differing_columns"] == {"kv.v.1": [7]}
    assert finding.evidence["differing_entries"] == 1


def test_slots_never_stamped_are_counted_apart(run) -> None:
    import numpy as np

    world = fixture_f(mode=ALL, stamps=("kv.v.1",))
    corruptions.zero_slots(world, [8, 9], data=False)
    world.stamps["kv.v.1"][[8, 9]] = 0
    world.evidence["stamped_step"] = np.where(np.isin(np.arange(16), [8, 9]), -1, 4)
    report = run(world.dataset())
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.RECORDS].details["unstamped"] == 2
    assert _planned_checked(report, Family.RECORDS) == (8, 6)
    assert _planned_checked(report, Family.BYTES) == (12, 12)
    (finding,) = report.findings
    assert (finding.rule, finding.slots) == ("KV004", [8, 9])


def test_a_scope_without_entries_is_incomplete(run) -> None:
    from kvaudit.core.layout import SlotRanges

    report = run(fixture_f(mode=ALL).dataset(), slots=SlotRanges.parse("12-13"))
    assert report.verdict is Verdict.INCOMPLETE
    assert report.incomplete_reasons


def test_a_disabled_launch_is_counted_whatever_columns_the_dump_has(run) -> None:
    plans = {
        (): 1,
        (LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL): 2,
    }
    for tags, num_launches in plans.items():
        world = fixture_f(canary=("k.tail",), stamps=("kv.k.0",))
        world.records["k.tail"][:] = 0
        for snapshot in (world.snapshot(), world.snapshot(canary={})):
            plan = world.plan(enable=False, tags=tags or None)
            report = run(Dataset(pools=[AuditedPool(snapshot=snapshot, plans=(plan,))]))
            assert report.coverage.disabled_launches == num_launches
