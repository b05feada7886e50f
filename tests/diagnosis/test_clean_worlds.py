"""CASES.md 7: what must not raise an error, all of it at once, in random datasets.

Ten thousand of them:
pytest tests/diagnosis/test_clean_worlds.py --hypothesis-profile ten-thousand --timeout 0
"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.layout import SlotRanges
from kvaudit.core.report import Report, Verdict
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import PoolKey
from tests.helpers import corruptions
from tests.helpers.clean_worlds import FORMS, LISTED, clean_world
from tests.helpers.diagnosing import report_of
from tests.helpers.long_pools import long_pool
from tests.helpers.worlds import World

WORLDS = 200


def _alarms(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.severity in (Severity.ERROR, None)]


def test_clean_worlds_have_all_that_is_listed_and_no_alarm() -> None:
    seen: set[str] = set()
    verdicts = []
    for seed in range(WORLDS):
        world = clean_world(seed)
        report = report_of(world.dataset)
        seen |= world.traits
        verdicts.append(report.verdict)
        assert (report.violations_total, _alarms(report)) == (0, []), (seed, world.traits)
    assert seen == LISTED | FORMS
    assert verdicts.count(Verdict.CLEAN) > WORLDS // 2


@given(seed=st.integers(WORLDS, 1 << 40))
def test_a_random_clean_world_has_no_alarm_in_any_scope(seed: int) -> None:
    world = clean_world(seed)
    rng = random.Random(seed)  # noqa: S311 - a seed gives the same scope
    first = rng.randrange(100)
    scopes: list[dict[str, object]] = [{}, {"slots": SlotRanges(((first, first + 20),))}]
    names = [
        name for pool in world.dataset.pools for part in pool.sequences for name in part.request_ids
    ]
    if names:
        scopes.append({"request_ids": (rng.choice(names),)})
    for scope in scopes:
        report = report_of(world.dataset, **scope)
        assert (report.violations_total, _alarms(report)) == (0, []), scope


def _of_group(world: World, group: str) -> AuditedPool:
    world.key = PoolKey(group=group)
    return AuditedPool(snapshot=world.snapshot(), sequences=(world.sequences(),))


def test_the_noise_of_one_group_hides_no_row_of_another() -> None:
    """A group of which every row fails, and one with a single fault: each is counted, and named."""
    target, draft = long_pool(16), long_pool(16)
    for request in target.requests:
        for slot in request.slots:
            corruptions.overwrite_slot(target, slot, token=7, position=slot, prev_hash=slot)
    slot = draft.request_of("R1").slots[20]
    corruptions.flip_record_bit(draft, slot, corruptions.TOKEN)
    pools = [_of_group(target, "target"), _of_group(draft, "draft")]
    report = report_of(Dataset(pools=pools), max_violations=10)
    of_draft = [finding for finding in report.findings if finding.key.group == "draft"]
    assert [(finding.rule, finding.slots) for finding in of_draft] == [("KV208", [slot])]
    num_rows = sum(len(request.slots) for request in target.requests) + 2
    assert report.violations_total == num_rows
