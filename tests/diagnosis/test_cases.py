"""CASES.md 2: what each listed footprint is diagnosed as, in its three columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from tests.helpers.diagnosing import report_of
from tests.helpers.worlds import World, build, fixture_f
from tests.runner.test_footprints import CASES

# id: rule, slots and requests of the one finding, in each column; None where the column is clean.
ALIAS_T01 = ("KV101", [4], ["A", "B"])
T07 = ("KV205", [2, 3, 4, 5], ["A"])
FLIP = ("KV208", [7], ["B"])
TAIL = ("KV302", [8, 9], ["B"])
LISTED = {
    "T00": (None, None, None),
    "T01": (ALIAS_T01,) * 3,
    "T02": (ALIAS_T01,) * 3,
    "T03": (None, *[("KV301", [7], ["B"])] * 2),
    "T04": (("KV203", [7], ["B"]),) * 3,
    "T05": (("KV204", [8, 9], ["B"]),) * 3,
    "T07": (T07,) * 3,
    "T08": (None, *[("KV310", [2, 3, 4, 5], ["A"])] * 2),
    "T09": (TAIL,) * 3,
    "T10": (None, TAIL, TAIL),
    "T12": (("KV311", [6, 7, 8, 9], ["B"]),) * 3,
    "T13": (None, None, ("KV202", [2, 3, 4, 5], ["A"])),
    "T15": (None, None, None),
    "T17": (None, *[("KV304", [7], ["B"])] * 2),
    "T18-K1": (None, None, None),
    "T18-V0": (None, None, None),
    "T18-V1": (None, None, None),
    "T19": (FLIP,) * 3,
    "T21": (FLIP,) * 3,
    "T22": (FLIP,) * 3,
    "T23": (None, None, ("KV201", [7], ["B"])),
    "T25": (None, None, None),
    "T26": (("KV209", [6, 7, 8, 9], ["B"]),) * 3,
    "T27": (None, *[("KV301", [7], ["B"])] * 2),
}
JUDGED = [
    (0, RealKvHashMode.NONE),
    (1, RealKvHashMode.PARTIAL),
    (1, RealKvHashMode.ALL),
    (2, RealKvHashMode.PARTIAL),
    (2, RealKvHashMode.ALL),
]


def test_every_listed_case_is_here() -> None:
    assert set(LISTED) == set(CASES)


@pytest.mark.parametrize(("column", "mode"), JUDGED)
@pytest.mark.parametrize("case", LISTED)
def test_a_listed_case_has_the_right_rule_root_and_request_and_nothing_else(
    case: str, column: int, mode: RealKvHashMode
) -> None:
    report = report_of(CASES[case][0](mode), tokens=column == 2)
    findings = [finding for finding in report.findings if not finding.rule.startswith("KV0")]
    wanted = LISTED[case][column]
    found = [(finding.rule, finding.slots, finding.request_ids) for finding in findings]
    assert found == ([] if wanted is None else [wanted])
    assert sum(finding.evidence.get("rows", 0) for finding in findings) == report.violations_total


# What is a fault of bytes alone has no finding of a rule on records.
BYTES_CASES = ("T03", "T08", "T09", "T10", "T12", "T17", "T25", "T27")


@pytest.mark.parametrize(("column", "mode"), JUDGED)
@pytest.mark.parametrize("case", BYTES_CASES)
def test_a_fault_of_the_bytes_is_not_explained_by_the_records(
    case: str, column: int, mode: RealKvHashMode
) -> None:
    world = CASES[case][0](mode)
    assert not report_of(world, tokens=column == 2, select=("KV2",)).findings


def _shared_prefix() -> World:
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    return builder.request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2).done()


def _heads_without_real_data() -> World:
    return fixture_f(mode=RealKvHashMode.ALL, canary=("k.head",))


def _old_canaries() -> World:
    world = build().request("old", tokens=[31, 32, 33, 34], slots=[10, 11, 12, 13])
    world.request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    return _only(world.done(), "A")


def _only(world: World, *names: str) -> World:
    """The same pool with some of its requests alone."""
    world.requests = [world.request_of(name) for name in names]
    return world


def _v_unstamped() -> World:
    world = fixture_f(canary=("k.head", "k.tail", "v.head", "v.tail"))
    for buffer in ("v.head", "v.tail"):
        world.records[buffer][:] = 0
    return world


def _last_token_without_kv() -> World:
    world = fixture_f()
    world.request_of("A").tokens.append(15)
    return world


@pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])
@pytest.mark.parametrize(
    "make",
    [_shared_prefix, _heads_without_real_data, _old_canaries, _v_unstamped, _last_token_without_kv],
    ids=["G1", "G6", "G7", "G8", "G9"],
)
def test_a_guard_has_no_finding(make: Callable[[], World], tokens: bool) -> None:
    report = report_of(make(), tokens=tokens)
    assert not report.violations_total
    assert {finding.rule for finding in report.findings} <= {"KV004"}


def test_unfilled_rows_of_a_plan_have_no_finding() -> None:
    """G5."""
    world = fixture_f()
    pool = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(padding=3),))
    report = report_of(Dataset(pools=[pool]))
    assert (report.violations_total, report.findings) == (0, [])
