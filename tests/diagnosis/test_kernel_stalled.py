"""KV003: counters that stood still."""

from __future__ import annotations

from kvaudit.constants import LaunchTag
from kvaudit.core.canary_health import CanaryHealth, Stall, UncountedLaunches
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.kernel_stalled import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f

TAIL = Stall(tags=(LaunchTag.TAIL_K_FULL,), step=200)
BOTH = Stall(tags=(LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL), step=300)


def test_a_stall_is_named_by_its_tag_and_the_step_of_the_check() -> None:
    (finding,) = find(evidence_of(fixture_f(), health=CanaryHealth(stalls=(TAIL,))))
    assert finding.severity is Severity.WARNING
    assert "TAIL_K_FULL did not run between the check at step 200" in finding.summary
    assert finding.evidence["examples"] == [{"step": 200, "tags": ["TAIL_K_FULL"]}]


def test_stalls_of_several_checks_are_one_finding_that_names_the_first() -> None:
    (finding,) = find(evidence_of(fixture_f(), health=CanaryHealth(stalls=(TAIL, BOTH))))
    assert "step 200" in finding.summary
    assert finding.summary.endswith("; 2 checks in all")
    assert finding.evidence["tags"] == ["HEAD_K_FULL", "TAIL_K_FULL"]
    assert finding.evidence["num_checks"] == 2


def test_launches_that_the_counter_lacks_are_named_by_their_tag() -> None:
    lacking = UncountedLaunches(tag=LaunchTag.TAIL_K_FULL, counted=1149, told=1300)
    (finding,) = find(evidence_of(fixture_f(), health=CanaryHealth(uncounted=(lacking,))))
    assert "the counter of TAIL_K_FULL has 1,149 launches" in finding.summary
    assert "the trace tells of 1,300" in finding.summary
    assert finding.evidence["examples"] == [{"tag": "TAIL_K_FULL", "counted": 1149, "told": 1300}]


def test_a_run_whose_counters_moved_has_none() -> None:
    assert not find(evidence_of(fixture_f(), health=CanaryHealth(violations=3, ring_capacity=8)))
    assert not find(evidence_of(fixture_f()))
