"""KV002: a plan that did not fit."""

from __future__ import annotations

from kvaudit.constants import LaunchTag
from kvaudit.diagnosis.launch_disabled import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f


def test_a_disabled_plan_is_named_with_its_step_and_tags() -> None:
    world = fixture_f()
    plans = [
        world.plan(enable=enable, step=7, tags=(LaunchTag.TAIL_K_FULL,)).launches[0]
        for enable in (True, False)
    ]
    (finding,) = find(evidence_of(world, launches=plans))
    assert finding.evidence["examples"] == [{"step": 7, "tags": ["TAIL_K_FULL"], "capacity": 8}]
    assert finding.evidence["num_plans"] == 1


def test_enabled_plans_are_right() -> None:
    world = fixture_f()
    assert not find(evidence_of(world, launches=world.plan().launches))
