"""KV404: where a replay and a record part."""

from __future__ import annotations

from kvaudit.core.canary_health import CanaryHealth
from kvaudit.core.divergence import Divergence, DivergenceKind, Divergences
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.replay_divergence import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f

BYTES = Divergence(
    kind=DivergenceKind.BYTES,
    first_step=101,
    last_step=150,
    column="kv.v.1",
    slot=7,
    position=1,
    request_ids=("B",),
)


def found(*divergences: Divergence, total: int | None = None) -> list[Finding]:
    kept = Divergences()
    kept.add(divergences, total=total)
    return find(evidence_of(fixture_f(), health=CanaryHealth(divergences=kept)))


def test_the_first_difference_is_named_by_range_slot_request_position_and_column() -> None:
    (finding,) = found(BYTES)
    assert finding.severity is Severity.ERROR
    assert finding.summary == (
        "the first difference is of steps 101 to 150: slot 7 (page 3 +1), request B, position 1: "
        "kv.v.1 changed without a write"
    )
    assert finding.slots == [7]
    assert finding.request_ids == ["B"]
    assert finding.evidence["first_step"] == 101
    assert finding.evidence["last_step"] == 150


def test_an_exact_step_is_one_step_and_the_others_are_counted() -> None:
    exact = Divergence(
        kind=DivergenceKind.RECORD,
        first_step=12,
        last_step=12,
        column="canary.k.tail prev_hash",
        slot=4,
        recorded=-1,
        replayed=5,
    )
    (finding,) = found(exact, BYTES, total=40)
    assert "is of step 12: slot 4 (page 2 +0): canary.k.tail prev_hash" in finding.summary
    assert finding.summary.endswith("; 40 differences in all")
    first = finding.evidence["examples"][0]
    # Hashes are written as everywhere.
    assert (first["recorded"], first["replayed"]) == ("0x" + "f" * 16, "0x" + "0" * 15 + "5")


def test_a_difference_without_a_slot_or_outside_the_pool_has_a_sentence_too() -> None:
    (finding,) = found(Divergence(kind=DivergenceKind.VIOLATION, first_step=3, last_step=3))
    assert finding.summary == (
        "the first difference is of step 3: a launch finds violations without a row"
    )
    wild = Divergence(
        kind=DivergenceKind.PLAN,
        first_step=3,
        last_step=3,
        column="write_seed_slot_indices",
        slot=999,
        request_ids=tuple("ABCDE"),
    )
    (finding,) = found(wild)
    assert "slot 999, requests A, B, C and 2 more: write_seed_slot_indices" in finding.summary


def test_a_replay_that_agrees_has_none() -> None:
    assert not found()
    assert not find(evidence_of(fixture_f()))
