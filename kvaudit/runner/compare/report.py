"""From the legs to the report of a comparison: coverage, verdict, rows and findings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_choices import MatchBy
from kvaudit.core.coverage import Coverage, Family, FamilyCoverage
from kvaudit.core.dataset import Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.report import (
    EXIT_CODE_LEFT_OUT,
    EXIT_CODES,
    BackendChoice,
    InputFile,
    Report,
    Timing,
    Verdict,
)
from kvaudit.diagnosis.pool_groups import grouped_findings
from kvaudit.errors import InputError
from kvaudit.runner.compare.leg import LegResult
from kvaudit.runner.verdict import any_fails, is_short, required_families

_WAYS_OUT: Final = {
    Family.INDEX: "give the sequences of both dumps",
    Family.RECORDS: "dump the canary columns of stamped pools",
    Family.BYTES: "dump KV bytes, or their digests, on both sides",
    Family.IDENTITY: "leave identity out of --require: a comparison judges none",
}
_MISSING: Final = {
    Family.INDEX: "dump all slots of the requests in both",
    Family.RECORDS: "compare dumps of the same moment, or give the sequences of both, so that what "
    "they share alone is asked for",
    Family.BYTES: "dump the same slots and columns on both sides, or name the columns of both by "
    "--layer",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """A comparison at its end.

    Fields:
        legs: every leg of every pool.
        left_out: why pools could not be compared.
        alone: pools that one set of files has and another lacks, one sentence each.
    """

    legs: Sequence[LegResult]
    left_out: Sequence[InputError]
    alone: Sequence[str]


def report_of(
    outcome: Outcome,
    *,
    datasets: Sequence[Dataset],
    choice: BackendChoice,
    options: AuditOptions,
    self_check: str,
    started: float,
) -> Report:
    """The report of a comparison."""
    legs = outcome.legs
    findings = _findings(legs)
    coverage = _coverage(legs, options)
    reasons = [
        *(f"not compared: {error}" for error in outcome.left_out),
        *outcome.alone,
        *_shortfalls(coverage, options),
    ]
    if not any(covered and covered.checked for covered in coverage.families.values()):
        reasons.append(f"nothing was compared: {_why_nothing(legs, coverage)}")
    total = sum(leg.violations_total for leg in legs)
    failed = total or any_fails(findings, options)
    verdict = Verdict.INCOMPLETE if reasons else Verdict.CLEAN
    exit_code = EXIT_CODE_LEFT_OUT if outcome.left_out else EXIT_CODES[verdict]
    if failed:
        verdict, exit_code = Verdict.VIOLATIONS, EXIT_CODES[Verdict.VIOLATIONS]
    rows = sorted((row for leg in legs for row in leg.violations), key=lambda row: row.sort_key())
    return Report(
        verdict=verdict,
        exit_code=exit_code,
        inputs=_inputs(datasets),
        backend=choice,
        self_check=self_check,
        coverage=coverage,
        legs=[leg.leg for leg in legs],
        violations_total=total,
        violations=rows[: options.max_violations],
        findings=findings,
        page_sizes={leg.key: leg.right.snapshot.page_size for leg in legs},
        incomplete_reasons=reasons,
        left_out=outcome.left_out,
        timing=Timing(
            seconds=time.perf_counter() - started, kv_bytes=sum(leg.kv_bytes for leg in legs)
        ),
    )


def _inputs(datasets: Sequence[Dataset]) -> list[InputFile]:
    """Every file read, once."""
    return list({file.path: file for dataset in datasets for file in dataset.files}.values())


def _findings(legs: Sequence[LegResult]) -> list[Finding]:
    """Errors first; what several ranks show alike is one, but for each leg apart."""
    findings = [
        finding
        for name in dict.fromkeys(leg.leg.name for leg in legs)
        for finding in grouped_findings(
            [found for leg in legs if leg.leg.name == name for found in leg.findings]
        )
    ]
    return sorted(findings, key=lambda f: 1 if f.severity is None else -f.severity.rank)


def _coverage(legs: Sequence[LegResult], options: AuditOptions) -> Coverage:
    families = {
        Family.INDEX: _index(legs),
        Family.RECORDS: _records(legs),
        Family.BYTES: _bytes(legs, options),
    }
    return Coverage(
        families=families,
        absent={
            Family.INDEX: "no request is in both",
            Family.RECORDS: "no records in both",
            Family.BYTES: _why_no_bytes(legs),
            Family.IDENTITY: "not compared",
        },
        slots_pool=sum(leg.left.snapshot.num_slots for leg in legs),
        slots_planned=sum(leg.leg.left_slots for leg in legs),
        slots_checked=sum(leg.leg.left_slots - leg.leg.left_unmatched for leg in legs),
    )


def _index(legs: Sequence[LegResult]) -> FamilyCoverage | None:
    """Positions of the requests that both name; of contents that tokens name, the slots."""
    planned = checked = 0
    for leg in legs:
        join = leg.matching.requests
        if join is not None and len(join.positions):
            ours = leg.left.held_rows[join.left_elements]
            theirs = leg.right.held_rows[join.right_elements]
            planned += len(join.positions)
            if leg.leg.kind is LegKind.TRANSFER:
                planned += len(join.left_behind)
            checked += int(np.count_nonzero((ours >= 0) & (theirs >= 0)))
        elif leg.matching.contents is not None and not leg.records.buffers:
            planned += leg.leg.left_slots
            checked += leg.leg.left_slots - leg.leg.left_unmatched
    return FamilyCoverage(planned=planned, checked=checked) if planned else None


def _records(legs: Sequence[LegResult]) -> FamilyCoverage | None:
    """Slots of the left dumps that must have a counterpart, of legs with records in both."""
    stamped = [leg for leg in legs if leg.records.buffers]
    planned = sum(leg.leg.left_slots for leg in stamped)
    if not planned:
        return None
    unmatched = sum(leg.leg.left_unmatched for leg in stamped)
    ways = dict.fromkeys(by for leg in stamped for by, count in leg.leg.matched.items() if count)
    return FamilyCoverage(
        planned=planned,
        checked=planned - unmatched,
        scope=f"(by {' and '.join(ways)})" if ways and [*ways] != [MatchBy.SLOT] else "",
    )


def _bytes(legs: Sequence[LegResult], options: AuditOptions) -> FamilyCoverage | None:
    """Matched slots, or pages of them, times columns; without another family also the unmatched."""
    planned = checked = left_out = 0
    for leg in legs:
        columns = leg.bytes.columns
        slots = leg.bytes.num_due + _unmatched_by_number(leg)
        planned += slots * (len(columns.compared) + len(columns.left_out))
        checked += leg.bytes.num_compared * len(columns.compared) - leg.bytes.undecided
        left_out += len(columns.left_out)
    if not planned:
        return None
    limits = []
    if options.layers is not None:
        limits.append(f"layers {', '.join(map(str, options.layers))} alone")
    if any(leg.bytes.pages is not None for leg in legs):
        limits.append("by page")
    return FamilyCoverage(
        planned=planned,
        checked=checked,
        details={"columns_absent": left_out},
        scope=f"({', '.join(limits)})" if limits else "",
    )


def _unmatched_by_number(leg: LegResult) -> int:
    """Slots, or pages, without a counterpart that neither index nor records counts."""
    join = leg.matching.requests
    has_requests = join is not None and len(join.positions)
    if has_requests or leg.records.buffers or leg.matching.contents is not None:
        return 0
    unit = 1 if leg.bytes.pages is None else leg.left.snapshot.page_size
    return -(-leg.leg.left_unmatched // unit)


def _why_no_bytes(legs: Sequence[LegResult]) -> str:
    """Why no KV was compared, each different reason once."""
    reasons = [leg.bytes.columns.excused or "nothing matched" for leg in legs]
    return ", ".join(dict.fromkeys(reasons))


def _why_nothing(legs: Sequence[LegResult], coverage: Coverage) -> str:
    """What kept slots from being matched; where they were, what they lack."""
    reasons = dict.fromkeys(leg.matching.lacks for leg in legs if leg.matching.lacks)
    return "; ".join(reasons or (coverage.absent[Family.RECORDS], coverage.absent[Family.BYTES]))


def _shortfalls(coverage: Coverage, options: AuditOptions) -> list[str]:
    """Sentences on required families below the demanded coverage, and what to pass."""
    reasons = []
    for family, covered in required_families(coverage, options):
        if covered is None:
            why = coverage.absent.get(family, "nothing planned")
            reasons.append(
                f"{family} is required, but nothing of it can be compared ({why}): "
                f"{_WAYS_OUT[family]}"
            )
        elif is_short(covered, options):
            reasons.append(
                f"{family}: {covered.checked:,} of {covered.due:,} compared, less than the "
                f"required {options.min_coverage:g}%: {_MISSING[family]}; or lower --min-coverage"
            )
    return reasons
