"""Literal BlameReports: what the renderer is judged by, and no backend was needed for."""

from __future__ import annotations

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.blame_report import BlameReport, RelatedFinding, Relation
from kvaudit.core.finding import Finding
from kvaudit.core.report import Timing
from kvaudit.core.severity import Severity
from kvaudit.core.slot_facts import (
    ByteComparison,
    ColumnDigests,
    ContentCopy,
    SlotRecord,
    WordDifference,
)
from kvaudit.core.slot_readers import Neighbour, SlotClaim, SlotReader
from kvaudit.core.violation import Violation
from tests.helpers import reports

READER = SlotReader(request_id="A", position=7)
CLAIM = SlotClaim(
    reader=READER,
    source="sequences",
    state="running",
    token=13,
    stored_position=7,
    prev_slot=4102,
    is_head=False,
)
RECORD = SlotRecord(
    buffer="k.tail",
    token=13,
    position=7,
    prev_hash=0x7B,
    real_kv_hash=1,
    expected_real_kv_hash=2,
    slot_hash=3,
)
ROW = Violation(
    tag=LaunchTag.TAIL_K_FULL,
    key=reports.KEY,
    entry=3,
    slot=4103,
    real_kv_hash=1,
    expected_real_kv_hash=2,
    reasons=FailReason.VERIFY_REAL_KV_HASH_MISMATCH,
    request_ids=("A",),
)
COLUMN_ROW = Violation(
    tag=None,
    key=reports.KEY,
    entry=None,
    slot=4103,
    columns=("kv.k.1",),
    reasons=FailReason.COLUMN_DIGEST_MISMATCH,
    request_ids=("A",),
)


def finding(rule: str, name: str, *, slots: tuple[int, ...]) -> Finding:
    return Finding(
        rule=rule,
        name=name,
        severity=Severity.ERROR,
        summary=f"what {name} says",
        slots=slots,
        request_ids=("A",),
        key=reports.KEY,
    )


FLIP = finding("KV304", "kv-bit-flip", slots=(4103,))
WRITER = finding("KV203", "late-writer", slots=(4090,))

DAMAGED = BlameReport(
    path="step-000120/target.snapshot.arrow",
    inputs=(reports.SNAPSHOT, reports.SEQUENCES),
    key=reports.KEY,
    page_size=16,
    num_slots=8192,
    slot=4103,
    has_expectations=True,
    claims=[CLAIM],
    num_claims=1,
    records=[RECORD],
    columns=[
        ColumnDigests(name="kv.k.0", stamped=4, recomputed=4),
        ColumnDigests(name="kv.v.0", stamped=5, recomputed=5),
        ColumnDigests(name="kv.k.1", stamped=6, recomputed=7, pattern="zero from byte 64 on"),
        ColumnDigests(name="kv.v.1", stamped=8, recomputed=8),
    ],
    violations=[ROW, COLUMN_ROW],
    findings=[
        RelatedFinding(relation=Relation.NAMES, finding=FLIP),
        RelatedFinding(relation=Relation.TAINTS, finding=WRITER),
    ],
    neighbours=[
        Neighbour(
            slot=4102,
            roles=["previous slot", "expected before it"],
            token=12,
            position=6,
            readers=[SlotReader(request_id="A", position=6)],
        ),
        Neighbour(slot=4104, roles=["next slot"]),
    ],
    copies=[
        ContentCopy(
            slot=33,
            readers=[SlotReader(request_id="B", position=1)],
            same_records=("k.tail",),
            same_columns=("kv.k.0",),
            written_columns=("kv.k.1",),
        )
    ],
    num_copies=1,
    searched_columns=("kv.k.1",),
    comparisons=[
        ByteComparison(
            column="kv.k.1",
            other_slot=33,
            says="beside slot 33 (page 2 +1), which holds what was stamped here",
            num_words=16,
            num_differing=1,
            words=[WordDifference(byte=8, holds=0x01, other=0x0301)],
        )
    ],
    evidence={"alloc.owner": "A", "alloc.ref": 1},
    not_compared=["content was searched for in 1 of 4 columns"],
    backend=reports.CPU,
    self_check="passed",
    timing=Timing(seconds=0.25, kv_bytes=0),
)
