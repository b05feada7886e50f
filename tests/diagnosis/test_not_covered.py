"""KV001: planned, and not judged."""

from __future__ import annotations

import numpy as np

from kvaudit.core.evidence import CoverageGaps
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.not_covered import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f


def test_absent_slots_are_named_in_both_numberings() -> None:
    gaps = CoverageGaps(absent_slots=np.array([7, 9]))
    (finding,) = find(evidence_of(fixture_f(), gaps=gaps))
    assert (finding.severity, finding.slots) == (Severity.WARNING, [7, 9])
    assert "slot 7 (page 3 +1)" in finding.summary
    assert "2 slots" in finding.summary


def test_a_mid_step_dump_lists_its_differences() -> None:
    gaps = CoverageGaps(mid_step=True, mid_step_columns={"kv.v.1": np.array([7])}, mid_step_slots=1)
    (finding,) = find(evidence_of(fixture_f(), gaps=gaps))
    assert finding.evidence["differing_columns"] == {"kv.v.1": [7]}
    assert finding.evidence["differing_slots"] == 1


def test_a_covered_pool_has_no_such_finding() -> None:
    assert not find(evidence_of(fixture_f()))
