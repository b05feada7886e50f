from __future__ import annotations

import pytest

from kvaudit.core.coverage import Family
from kvaudit.core.dataset import Dataset
from kvaudit.core.report import Verdict
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import PoolKey
from tests.helpers.comparing import HOST, THERE, change_byte, clear, compared, dumped


def test_the_scope_of_the_verdict_says_how_slots_were_matched() -> None:
    damaged = dumped(THERE, key=HOST)
    assert compared(dumped(), damaged).coverage.families[Family.RECORDS].scope == "(by content)"
    clear(damaged, [12])
    families = compared(dumped(), damaged).coverage.families
    assert families[Family.RECORDS].scope == "(by content and request)"


def test_coverage_counts_positions_slots_and_columns() -> None:
    report = compared(dumped(), dumped(THERE, key=HOST))
    planned = {family: f.planned for family, f in report.coverage.families.items() if f}
    assert planned == {Family.INDEX: 8, Family.RECORDS: 8, Family.BYTES: 32}
    coverage = report.coverage
    assert (coverage.slots_pool, coverage.slots_planned, coverage.slots_checked) == (16, 8, 8)
    assert coverage.absent[Family.IDENTITY] == "not compared"


def test_dumps_without_records_are_compared_by_the_tokens_of_their_sequences() -> None:
    report = compared(dumped(canary=()), dumped(THERE, key=HOST, canary=()))
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.RECORDS] is None
    assert report.coverage.absent[Family.RECORDS] == "no records in both"
    assert report.legs[0].to_dict()["matched"] == {"content": 8, "request": 0, "slot": 0}


@pytest.mark.parametrize("canary", [(), ("k.tail",)])
def test_slots_of_a_number_that_the_right_dump_lacks_lower_the_coverage(
    canary: tuple[str, ...],
) -> None:
    whole = dumped(canary=canary).snapshot()
    part = dumped(canary=()).snapshot(slots=(2, 3))
    report = compared(whole, part)
    covered = report.coverage.families[Family.BYTES]
    due = 8 if canary else 15
    assert (covered.checked, covered.planned) == (2 * 4, due * 4)
    assert report.verdict is Verdict.INCOMPLETE
    assert compared(part, whole).verdict is Verdict.CLEAN


@pytest.mark.parametrize("family", [Family.INDEX, Family.IDENTITY])
def test_a_required_family_that_cannot_be_compared_leaves_with_5(family: Family) -> None:
    report = compared(
        dumped(), dumped(THERE, key=HOST), sequences=False, require=frozenset({family})
    )
    assert report.exit_code == 5
    assert f"{family} is required" in report.incomplete_reasons[0]


def test_a_layer_alone_and_a_file_given_twice_are_said() -> None:
    report = compared(dumped(), dumped(), layers=(1,))
    assert report.coverage.families[Family.BYTES].scope == "(layers 1 alone)"
    assert report.coverage.families[Family.BYTES].planned == 16


def test_findings_below_the_demanded_severity_fail_no_run_but_rows_do() -> None:
    damaged = dumped(THERE, key=HOST)
    damaged.request_of("A").tokens = [11, 12, 13, 99]
    report = compared(dumped(), damaged)
    assert [found.rule for found in report.findings] == ["KV402"]
    assert report.exit_code == 1
    assert not report.violations_total
    change_byte(damaged, 12)
    assert compared(dumped(), damaged, ignore=("KV4",)).exit_code == 1
    assert compared(dumped(), dumped(), fail_on=Severity.NOTE).exit_code == 0


def test_the_document_has_the_legs() -> None:
    document = compared(dumped(), dumped(THERE, key=HOST)).to_dict()
    assert document["schema"] == "kvaudit.report/1"
    [leg] = document["legs"]
    assert leg["matched"]["content"] == 8
    assert leg["left_unmatched"] == 0


def test_what_two_pools_of_one_leg_show_alike_is_one_finding_and_legs_stay_apart() -> None:
    def pools(tier: str, *, damaged: bool) -> Dataset:
        worlds = [dumped(key=PoolKey(tier=tier, rank=rank)) for rank in range(2)]
        for world in worlds:
            if damaged:
                change_byte(world, 4)
        return Dataset(pools=[world.dataset().pools[0] for world in worlds])

    [found] = compared(pools("device", damaged=False), pools("host", damaged=True)).findings
    assert found.evidence["ranks"] == [0, 1]
    steps = [dumped(key=PoolKey(step=step)) for step in range(3)]
    change_byte(steps[1], 4)
    change_byte(steps[2], 4, byte=3)
    report = compared(*steps, select=("KV402",))
    assert [found.evidence["leg"][:4] for found in report.findings] == ["A->B", "B->C"]
