"""KV004: nothing to compare with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.core.evidence import CoverageGaps
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.unstamped import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f


def test_zero_columns_are_one_note() -> None:
    gaps = CoverageGaps(unstamped_columns=("canary.v.head", "canary.v.tail"))
    (finding,) = find(evidence_of(fixture_f(), gaps=gaps))
    assert finding.severity is Severity.NOTE
    assert finding.evidence == {"columns": ["canary.v.head", "canary.v.tail"]}


def test_slots_never_stamped_are_another() -> None:
    gaps = CoverageGaps(never_stamped_slots=np.array([3, 4]))
    (finding,) = find(evidence_of(fixture_f(), gaps=gaps))
    assert finding.slots == [3, 4]


def test_a_slot_never_stamped_comes_with_the_request_that_reads_it() -> None:
    world = fixture_f()
    sequences = world.sequences()
    name, slot = sequences.request_ids[1], int(sequences.slots_of(1)[2])
    gaps = CoverageGaps(never_stamped_slots=np.array([slot]))
    (finding,) = find(evidence_of(world, gaps=gaps))
    assert name in finding.request_ids
    assert f"position 2 of {name}, was never stamped" in finding.summary


def test_a_slot_never_stamped_is_named_without_sequences_too() -> None:
    gaps = CoverageGaps(never_stamped_slots=np.array([3, 4]))
    evidence = replace(evidence_of(fixture_f(), gaps=gaps), sequences=None)
    (finding,) = find(evidence)
    assert finding.request_ids == []
    assert finding.summary.startswith("slot 3 ")
    assert finding.summary.endswith("; 2 slots in all")


def test_a_stamped_pool_has_none() -> None:
    assert not find(evidence_of(fixture_f()))
