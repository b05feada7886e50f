"""Literal Reports: what the renderers are judged by, and no backend was needed for."""

from __future__ import annotations

from dataclasses import replace

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.coverage import Coverage, Family, FamilyCoverage
from kvaudit.core.finding import Finding
from kvaudit.core.report import BackendChoice, InputFile, Report, TagCounters, Timing, Verdict
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation

KEY = PoolKey(step=120)

SNAPSHOT = InputFile(
    path="step-000120/target.snapshot.arrow",
    kind="snapshot",
    key={"pool": "FULL", "step": 120},
    page_size=16,
)
SEQUENCES = InputFile(
    path="step-000120/target.sequences.arrow", kind="sequences", key={"step": 120}
)
CPU = BackendChoice(name="cpu", device="8 threads", reason="no CUDA device")

NOT_STAMPED = Coverage(
    families={
        Family.INDEX: FamilyCoverage(planned=1024, checked=1024),
        Family.RECORDS: FamilyCoverage(
            planned=2048, checked=1024, excused=1024, details={"unstamped": 1024}
        ),
        Family.BYTES: None,
        Family.IDENTITY: None,
    },
    absent={Family.BYTES: "not stamped", Family.IDENTITY: "no bytes"},
    slots_pool=4096,
    slots_planned=1024,
    slots_checked=1024,
)
PARTLY = replace(
    NOT_STAMPED,
    families={
        Family.INDEX: FamilyCoverage(planned=1024, checked=1024),
        Family.RECORDS: FamilyCoverage(
            planned=20001, checked=20000, details={"not_in_snapshot": 1, "skipped_padding": 0}
        ),
        Family.BYTES: FamilyCoverage(planned=30720, checked=30720),
        Family.IDENTITY: None,
    },
    absent={Family.IDENTITY: "not asked for"},
    disabled_launches=1,
)

CLEAN = Report(
    verdict=Verdict.CLEAN,
    exit_code=0,
    inputs=(SNAPSHOT, SEQUENCES),
    backend=CPU,
    self_check="passed",
    coverage=NOT_STAMPED,
    tags=(
        TagCounters(tag="TAIL_K_FULL", kernel_runs=1, slots_run=1024, checked=1024, violations=0),
    ),
    findings=(
        Finding(
            rule="KV004",
            name="unstamped",
            severity=Severity.NOTE,
            summary="no record of v.tail is stamped: its 1,024 entries are not judged",
            key=KEY,
        ),
    ),
    timing=Timing(seconds=0.25, kv_bytes=0),
)

INCOMPLETE = Report(
    verdict=Verdict.INCOMPLETE,
    exit_code=5,
    inputs=(replace(SNAPSHOT, notes=("file not checksummed",)),),
    backend=CPU,
    self_check="passed",
    coverage=Coverage(
        absent=dict.fromkeys(Family, "no expectations"), slots_pool=4096, slots_planned=0
    ),
    incomplete_reasons=("nothing says what the pool should hold: pass --expect FILE",),
    timing=Timing(seconds=0.01, kv_bytes=0),
)

VIOLATIONS = Report(
    verdict=Verdict.VIOLATIONS,
    exit_code=1,
    inputs=(SNAPSHOT, SEQUENCES),
    backend=CPU,
    self_check="passed",
    coverage=PARTLY,
    tags=(
        TagCounters(tag="TAIL_K_FULL", kernel_runs=1, slots_run=1024, checked=1024, violations=2),
        TagCounters(tag="TAIL_V_FULL", kernel_runs=1, slots_run=1024, checked=1024, violations=0),
    ),
    violations_total=7,
    violations=(
        Violation(
            tag=LaunchTag.TAIL_K_FULL,
            key=KEY,
            entry=39,
            slot=4103,
            position=40,
            expected_position=39,
            token=17,
            expected_token=23,
            chain_hash=0x89CD2ABFBEBC0649,
            expected_chain_hash=0x13F5BAAFE6EF85D6,
            real_kv_hash=0,
            expected_real_kv_hash=0,
            reasons=FailReason.VERIFY_CHAIN_HASH_MISMATCH
            | FailReason.VERIFY_POSITION_MISMATCH
            | FailReason.VERIFY_TOKEN_MISMATCH,
            request_ids=("req-3",),
            step=120,
        ),
        Violation(
            tag=LaunchTag.TAIL_K_FULL,
            key=KEY,
            entry=7,
            slot=4200,
            reasons=FailReason.SLOT_OUT_OF_RANGE,
            expected_position=7,
            request_ids=("req-5",),
            step=120,
        ),
        Violation(
            tag=None,
            key=KEY,
            entry=None,
            slot=64,
            columns=("kv.v.17",),
            reasons=FailReason.COLUMN_DIGEST_MISMATCH,
            request_ids=("req-1", "req-3"),
            step=120,
        ),
        Violation(
            tag=None,
            key=KEY,
            entry=None,
            slot=4103,
            columns=("kv.k.0", "kv.k.1", "kv.k.2", "kv.v.0", "kv.side.scales"),
            reasons=FailReason.COLUMN_DIGEST_MISMATCH,
            request_ids=("req-3",),
            step=120,
        ),
    ),
    findings=(
        Finding(
            rule="KV101",
            name="slot-alias",
            severity=Severity.ERROR,
            summary="slot 4103 (page 256 +7) belongs to two requests at different positions",
            slots=(4103, 4104, 4105, 4110),
            request_ids=("req-3", "req-9"),
            key=KEY,
            evidence={
                "num_slots": 4,
                "step": 120,
                "examples": [
                    {
                        "slot": 4103,
                        "owners": [
                            {"request_id": "req-3", "position": 39},
                            {"request_id": "req-9", "position": 12},
                        ],
                    },
                ],
            },
            alternatives=("KV203",),
            settled_by="the allocator's owner column",
        ),
    ),
    page_sizes={KEY: 16},
    timing=Timing(seconds=0.5, kv_bytes=1_000_000_000),
)

ALL = {"clean": CLEAN, "incomplete": INCOMPLETE, "violations": VIOLATIONS}
