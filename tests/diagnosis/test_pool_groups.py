"""Findings of several pools."""

from __future__ import annotations

from dataclasses import replace

from kvaudit.core.dataset import Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import PoolKey
from kvaudit.diagnosis.pool_groups import grouped_findings
from tests.helpers import corruptions
from tests.helpers.diagnosing import findings_of
from tests.helpers.worlds import fixture_f

FINDING = Finding(
    rule="KV203",
    name="late-writer",
    severity=Severity.ERROR,
    summary="slot 7 was written over",
    slots=[7],
    request_ids=["B"],
    key=PoolKey(rank=0, step=3),
    evidence={"rows": 2},
)


def _at(**place: int | str) -> Finding:
    return replace(FINDING, key=replace(FINDING.key, **place))


def test_ranks_and_steps_of_one_cause_are_one_finding_that_lists_them() -> None:
    (finding,) = grouped_findings([FINDING, _at(rank=2), _at(rank=1, step=4)])
    assert finding.key == FINDING.key
    assert finding.evidence == {"rows": 6, "ranks": [0, 1, 2], "steps": [3, 4]}


def test_other_pools_slots_requests_and_rules_are_other_causes() -> None:
    others = [
        _at(instance="decode-1"),
        replace(_at(rank=1), slots=[8]),
        replace(_at(rank=1), request_ids=["A"]),
        replace(_at(rank=1), rule="KV202"),
        replace(_at(rank=1), severity=None),
    ]
    assert grouped_findings([FINDING, *others]) == [FINDING, *others]


def test_what_names_no_slot_is_known_by_its_words() -> None:
    bare = replace(FINDING, slots=[], request_ids=[], evidence={})
    other = replace(bare, summary="another column", key=replace(bare.key, rank=1))
    assert len(grouped_findings([bare, other])) == 2
    (finding,) = grouped_findings([bare, replace(other, summary=bare.summary)])
    assert finding.evidence == {"ranks": [0, 1]}


def test_an_audit_of_ranks_with_one_fault_has_one_finding() -> None:
    pools = []
    for rank in range(4):
        world = fixture_f(key=PoolKey(rank=rank))
        corruptions.flip_record_bit(world, 7, corruptions.TOKEN)
        pools += world.dataset().pools
    (finding,) = findings_of(Dataset(pools=pools))
    assert (finding.rule, finding.evidence["ranks"]) == ("KV208", [0, 1, 2, 3])
    assert finding.evidence["rows"] == 8
