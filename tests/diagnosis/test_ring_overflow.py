"""KV005: rows that a full ring lost."""

from __future__ import annotations

import pytest

from kvaudit.core.canary_health import CanaryHealth
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.ring_overflow import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f


@pytest.mark.parametrize(("violations", "lost"), [(1025, "1 row"), (5000, "3,976 rows")])
def test_the_rows_that_were_lost_are_counted(violations: int, lost: str) -> None:
    health = CanaryHealth(violations=violations, ring_capacity=1024)
    (finding,) = find(evidence_of(fixture_f(), health=health))
    assert finding.severity is Severity.WARNING
    assert f"{lost} of later violations" in finding.summary
    assert finding.evidence == {"violations": violations, "ring_capacity": 1024}


def test_a_ring_that_is_just_full_lost_nothing() -> None:
    health = CanaryHealth(violations=1024, ring_capacity=1024)
    assert not find(evidence_of(fixture_f(), health=health))


def test_without_a_ring_nothing_is_said() -> None:
    assert not find(evidence_of(fixture_f(), health=CanaryHealth(violations=9)))
