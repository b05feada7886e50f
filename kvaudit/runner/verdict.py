"""From the pools' counts to coverage, demands and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvaudit.constants import LaunchTag
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.coverage import Coverage, Family, FamilyCoverage
from kvaudit.core.finding import Finding
from kvaudit.core.report import TagCounters, Verdict
from kvaudit.runner.pool_audit import PoolResult

EXIT_CODES: Final = {Verdict.CLEAN: 0, Verdict.VIOLATIONS: 1, Verdict.INCOMPLETE: 5}

_REQUIRED_WHERE_PLANNED: Final = (Family.INDEX, Family.RECORDS, Family.BYTES)

# What to pass when a required family has nothing to check.
_WAYS_OUT: Final = {
    Family.INDEX: "pass --expect FILE with a plan or the sequences",
    Family.RECORDS: "dump the canary columns of a stamped pool",
    Family.BYTES: "dump stamped digests with the KV bytes, or with their digests",
    Family.IDENTITY: "leave identity out of --require",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The verdict, and what it lacked.

    Fields:
        verdict: the conclusion.
        incomplete_reasons: sentences on what lacked and what to pass.
    """

    verdict: Verdict
    incomplete_reasons: tuple[str, ...]


def conclude(
    results: Sequence[PoolResult],
    coverage: Coverage,
    *,
    findings: Sequence[Finding],
    options: AuditOptions,
) -> Conclusion:
    """Violations win over missing coverage; clean must be earned."""
    reasons = [*_without_expectations(results), *_shortfalls(coverage, options)]
    if not reasons and not any(family is not None for family in coverage.families.values()):
        reasons.append("nothing was checked: no planned entry is in scope")
    failed = any(result.violations_total for result in results) or any(
        finding.severity is not None
        and finding.severity.rank >= options.fail_on.rank
        and not finding.rule.startswith("KV0")
        for finding in findings
    )
    earned = Verdict.INCOMPLETE if reasons else Verdict.CLEAN
    verdict = Verdict.VIOLATIONS if failed else earned
    return Conclusion(verdict=verdict, incomplete_reasons=tuple(reasons))


def coverage_of(
    results: Sequence[PoolResult], *, options: AuditOptions, left_out: Sequence[str]
) -> Coverage:
    """The coverage of all pools.

    Args:
        results: the pools.
        options: what the user asked for.
        left_out: index rules that --select or --ignore leaves out.
    """
    families = {
        Family.INDEX: _index(results, left_out),
        Family.RECORDS: _records(results),
        Family.BYTES: _bytes(results, options),
    }
    return Coverage(
        families=families,
        absent=_absent(results, options),
        disabled_launches=sum(result.records.disabled_launches for result in results),
        slots_pool=sum(result.snapshot.num_slots for result in results),
        slots_planned=sum(result.planned.num_slots for result in results),
        slots_checked=sum(result.counts.slots_checked for result in results),
    )


def tag_counters(results: Sequence[PoolResult]) -> list[TagCounters]:
    """The counters of all pools, one a tag, in tag order."""
    by_tag: dict[str, TagCounters] = {}
    for counters in (counters for result in results for counters in result.records.tags):
        seen = by_tag.get(counters.tag)
        by_tag[counters.tag] = counters if seen is None else _added(seen, counters)
    return sorted(by_tag.values(), key=lambda counters: LaunchTag[counters.tag])


def _added(one: TagCounters, other: TagCounters) -> TagCounters:
    return TagCounters(
        tag=one.tag,
        kernel_runs=one.kernel_runs + other.kernel_runs,
        slots_run=one.slots_run + other.slots_run,
        checked=one.checked + other.checked,
        violations=one.violations + other.violations,
    )


def _index(results: Sequence[PoolResult], left_out: Sequence[str]) -> FamilyCoverage | None:
    planned = checked = in_flight = 0
    for result in results:
        entries = result.expectations.sequence_entries
        if entries is not None:
            every = int(entries.num_positions[entries.selected].sum())
            count = every if entries.scope.slots is None else entries.num_entries
            planned += count
            checked += count
            in_flight += int((entries.in_flight & entries.selected).sum())
        for launch in result.expectations.launch_entries:
            planned += launch.num_entries
            checked += launch.num_entries if launch.enabled else 0
    if not planned:
        return None
    scope = f"({', '.join(left_out)} left out)" if left_out else ""
    details = {"sequences_in_flight": in_flight} if in_flight else {}
    return FamilyCoverage(planned=planned, checked=checked, details=details, scope=scope)


def _records(results: Sequence[PoolResult]) -> FamilyCoverage | None:
    records = [result.records for result in results]
    planned = sum(part.planned for part in records)
    if not planned:
        return None
    padding = sum(part.skipped_padding for part in records)
    unstamped = sum(part.unstamped for part in records)
    return FamilyCoverage(
        planned=planned,
        checked=sum(part.checked for part in records),
        excused=padding + unstamped,
        details={
            "skipped_padding": padding,
            "predecessor_unreachable": sum(part.predecessor_unreachable for part in records),
            "not_in_snapshot": sum(part.not_in_snapshot for part in records),
            "unstamped": unstamped,
        },
    )


def _bytes(results: Sequence[PoolResult], options: AuditOptions) -> FamilyCoverage | None:
    planned = sum(result.counts.bytes_planned for result in results)
    if not planned:
        return None
    passes = [result.bytes for result in results if result.bytes is not None]
    scope = ""
    if options.layers is not None:
        scope = f"(layers {', '.join(map(str, options.layers))} alone)"
    return FamilyCoverage(
        planned=planned,
        checked=sum(result.counts.bytes_checked for result in results),
        details={
            "columns_unstamped": sum(len(part.unstamped) for part in passes),
            "columns_absent": sum(len(part.absent) for part in passes),
        },
        scope=scope,
    )


def _absent(results: Sequence[PoolResult], options: AuditOptions) -> dict[Family, str]:
    """Why each family may have nothing planned."""
    snapshots = [result.snapshot for result in results]
    has_bytes = any(snapshot.kv or snapshot.digests for snapshot in snapshots)
    layer0 = any(name.endswith(".0") for snapshot in snapshots for name in snapshot.kv)
    if options.skip_bytes:
        bytes_reason = "left out"
    elif not has_bytes:
        bytes_reason = "no bytes"
    else:
        bytes_reason = "not stamped"
    reasons = {
        Family.INDEX: "nothing in scope",
        Family.RECORDS: "not stamped" if any(s.canary for s in snapshots) else "no canary",
        Family.BYTES: bytes_reason,
        Family.IDENTITY: "not checked" if layer0 else "no bytes",
    }
    if not any(result.expectations.sources for result in results):
        reasons |= dict.fromkeys(_REQUIRED_WHERE_PLANNED, "no expectations")
    return reasons


def _without_expectations(results: Sequence[PoolResult]) -> list[str]:
    return [
        f"{result.snapshot.path or result.snapshot.key.label()}: nothing says what it should hold: "
        "pass --expect FILE with its sequences or its plan"
        for result in results
        if not result.expectations.sources
    ]


def _shortfalls(coverage: Coverage, options: AuditOptions) -> list[str]:
    """Required families below the demanded coverage."""
    reasons = []
    for family in Family:
        covered = coverage.families.get(family)
        due = 0 if covered is None else covered.due
        if options.require is None:
            required = family in _REQUIRED_WHERE_PLANNED and due > 0
        else:
            required = family in options.require
        if not required:
            continue
        if covered is None or not due:
            why = coverage.absent.get(family, "nothing planned")
            reasons.append(
                f"{family} is required, but nothing of it is planned ({why}): {_WAYS_OUT[family]}"
            )
        elif covered.checked * 100 < options.min_coverage * due:
            reasons.append(
                f"{family}: {covered.checked:,} of {due:,} checked, less than the required "
                f"{options.min_coverage:g}%: {_missing(family, covered, coverage)}"
            )
    return reasons


def _missing(family: Family, covered: FamilyCoverage, coverage: Coverage) -> str:
    """What to pass so that the rest can be checked."""
    ways = []
    if covered.details.get("not_in_snapshot"):
        ways.append("dump every planned slot and column")
    if coverage.disabled_launches and family is not Family.BYTES:
        ways.append("raise the plan's capacity, as disabled launches check nothing")
    if covered.details.get("columns_absent"):
        ways.append("dump bytes or digests of every stamped column")
    if family is Family.BYTES and not ways:
        ways.append("dump every planned slot, at the end of a step")
    return "; ".join([*ways, "or lower --min-coverage"])
