"""What an audit found, before any screen. Every renderer and the exit code read this alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kvaudit.core.chain_entries import ChainCounters
from kvaudit.core.comparison import ComparedLeg
from kvaudit.core.coverage import Coverage
from kvaudit.core.finding import Finding
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation
from kvaudit.errors import InputError

REPORT_SCHEMA: Final = "kvaudit.report/1"


class Verdict(StrEnum):
    """Violations win over missing coverage; clean must be earned."""

    CLEAN = "clean"
    VIOLATIONS = "violations"
    INCOMPLETE = "incomplete"


# What the process leaves with after a verdict. Where a pool was left out because its files cannot
# be used, no verdict but violations wins over that (DESIGN.md 5). `cli/exit_code.py` has all codes.
EXIT_CODES: Final = {Verdict.CLEAN: 0, Verdict.VIOLATIONS: 1, Verdict.INCOMPLETE: 5}
EXIT_CODE_LEFT_OUT: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file of the run.

    Fields:
        path: as the user wrote it.
        kind: `snapshot`, `sequences` or `plan`; `unknown` of a file that cannot be opened.
        key: the given parts of its pairing key, by name.
        page_size: of a snapshot; None for the other kinds.
        notes: what a reader must know, such as `file not checksummed`.
    """

    path: str
    kind: str
    key: Mapping[str, str | int] = field(default_factory=dict)
    page_size: int | None = None
    notes: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """The file in the JSON report."""
        document: dict[str, Any] = {"path": self.path, "kind": self.kind, **self.key}
        if self.page_size is not None:
            document["page_size"] = self.page_size
        document["notes"] = list(self.notes)
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChoice:
    """Which backend ran, on what, and why it and no other.

    Fields:
        name: `cuda`, `cpu` or `reference`.
        device: what it ran on, for people.
        reason: why it ran.
        device_bytes: the most bytes of the devices' own memory that it held; 0 on the host.
    """

    name: str
    device: str
    reason: str
    device_bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The backend in the JSON report."""
        return {
            "name": self.name,
            "device": self.device,
            "reason": self.reason,
            "device_bytes": self.device_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TagCounters:
    """This run's launches of one tag.

    Fields:
        tag: the tag's name.
        kernel_runs: launches, disabled ones included.
        slots_run: active entries of enabled launches, padding included.
        checked: entries judged.
        violations: entries that failed.
    """

    tag: str
    kernel_runs: int
    slots_run: int
    checked: int
    violations: int

    def to_dict(self) -> dict[str, Any]:
        """The tag in the JSON report."""
        return {
            "tag": self.tag,
            "kernel_runs": self.kernel_runs,
            "slots_run": self.slots_run,
            "checked": self.checked,
            "violations": self.violations,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """From the map to the verdict, start-up apart.

    Fields:
        seconds: wall time.
        kv_bytes: KV bytes folded.
    """

    seconds: float
    kv_bytes: int

    @property
    def gb_per_s(self) -> float:
        """10^9 KV bytes a second."""
        return self.kv_bytes / self.seconds / 1e9 if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The timing in the JSON report."""
        return {"seconds": self.seconds, "kv_bytes": self.kv_bytes, "gb_per_s": self.gb_per_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one audit.

    Fields:
        verdict: the conclusion.
        exit_code: the process's exit code for this report: 0, 1, 3 or 5.
        inputs: the files read.
        backend: who computed it.
        self_check: `passed`: a planted bad entry was caught.
        coverage: what was and was not looked at.
        tags: counters a tag, in tag order.
        chains: the chains of pools without expectations, a tag at a time, in tag order.
        legs: of a comparison, what was and was not compared between two dumps each.
        violations_total: failed entries and column rows, exact.
        violations: the rows shown, sorted; at most `--max-violations`.
        findings: errors first.
        page_sizes: slots a page, of each pool that was audited.
        paged_pools: those of them whose digests are of pages, each row of which is a page.
        incomplete_reasons: sentences on what lacked and what to pass; empty unless it lowers the
            verdict or coverage.
        left_out: why pools of the run were not audited; in JSON they are among the
            incomplete_reasons.
        timing: how long and how fast.
    """

    verdict: Verdict
    exit_code: int
    inputs: Sequence[InputFile]
    backend: BackendChoice
    self_check: str
    coverage: Coverage
    tags: Sequence[TagCounters] = ()
    chains: Sequence[ChainCounters] = ()
    legs: Sequence[ComparedLeg] = ()
    violations_total: int = 0
    violations: Sequence[Violation] = ()
    findings: Sequence[Finding] = ()
    page_sizes: Mapping[PoolKey, int] = field(default_factory=dict)
    paged_pools: frozenset[PoolKey] = frozenset()
    incomplete_reasons: Sequence[str] = ()
    left_out: Sequence[InputError] = ()
    timing: Timing

    def to_dict(self) -> dict[str, Any]:
        """The JSON report (DESIGN.md 5), JSON values only."""
        return {
            "schema": REPORT_SCHEMA,
            "verdict": str(self.verdict),
            "exit_code": self.exit_code,
            "inputs": [file.to_dict() for file in self.inputs],
            "backend": self.backend.to_dict(),
            "self_check": self.self_check,
            "coverage": self.coverage.to_dict(),
            "tags": [counters.to_dict() for counters in self.tags],
            "chains": [counters.to_dict() for counters in self.chains],
            "legs": [leg.to_dict() for leg in self.legs],
            "violations": {
                "total": self.violations_total,
                "shown": len(self.violations),
                "rows": [row.to_dict() for row in self.violations],
            },
            "findings": [finding.to_dict() for finding in self.findings],
            "incomplete_reasons": list(self.incomplete_reasons),
            "timing": self.timing.to_dict(),
        }
