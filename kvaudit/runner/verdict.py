"""From coverage and demands to the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.coverage import Coverage, Family, FamilyCoverage
from kvaudit.core.finding import Finding, RuleGroup, group_of
from kvaudit.core.report import EXIT_CODE_LEFT_OUT, EXIT_CODES, Verdict
from kvaudit.errors import InputError
from kvaudit.runner.pool_audit import PoolResult

_REQUIRED_WHERE_PLANNED: Final = (Family.INDEX, Family.RECORDS, Family.BYTES)

# What to pass when a required family has nothing to check.
_WAYS_OUT: Final = {
    Family.INDEX: "pass --expect FILE with a plan or the sequences",
    Family.RECORDS: "dump the canary columns of a stamped pool",
    Family.BYTES: "dump stamped digests with the KV bytes, or with their digests",
    Family.IDENTITY: "dump layer 0 with the tokens of the sequences, or pass --layer0 TABLE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The verdict, and what it lacked.

    Fields:
        verdict: the conclusion.
        exit_code: what the process leaves with.
        incomplete_reasons: sentences on what lacked and what to pass.
    """

    verdict: Verdict
    exit_code: int
    incomplete_reasons: tuple[str, ...]


def conclude(
    results: Sequence[PoolResult],
    coverage: Coverage,
    *,
    findings: Sequence[Finding],
    options: AuditOptions,
    left_out: Sequence[InputError],
) -> Conclusion:
    """Violations win over pools left out, and these over missing coverage; clean must be earned."""
    reasons = [
        *(f"not audited: {error}" for error in left_out),
        *_without_expectations(results),
        *shortfalls(coverage, options),
    ]
    if not reasons and not any(family is not None for family in coverage.families.values()):
        reasons.append("nothing was checked: no planned entry is in scope")
    failed = any(result.violations_total for result in results) or any_fails(findings, options)
    earned = Verdict.INCOMPLETE if reasons else Verdict.CLEAN
    verdict = Verdict.VIOLATIONS if failed else earned
    exit_code = EXIT_CODES[verdict]
    if left_out and not failed:
        exit_code = EXIT_CODE_LEFT_OUT
    return Conclusion(verdict=verdict, exit_code=exit_code, incomplete_reasons=tuple(reasons))


def any_fails(findings: Sequence[Finding], options: AuditOptions) -> bool:
    """Whether a finding is at or above the demanded severity; those of coverage never fail."""
    return any(
        finding.severity is not None
        and finding.severity.rank >= options.fail_on.rank
        and group_of(finding.rule) is not RuleGroup.COVERAGE
        for finding in findings
    )


def _without_expectations(results: Sequence[PoolResult]) -> list[str]:
    """Pools that nothing speaks of, neither expectations nor what they hold.

    Beside pools with expectations, chains alone do not do: a file of this set is likely missing.
    """
    some_expected = any(result.expectations.sources for result in results)
    return [
        f"{result.snapshot.path or result.snapshot.key.label()}: nothing says what it should hold: "
        "pass --expect FILE with its sequences or its plan"
        for result in results
        if not result.expectations.sources and (some_expected or not result.planned.num_slots)
    ]


def required_families(
    coverage: Coverage, options: AuditOptions
) -> Iterator[tuple[Family, FamilyCoverage | None]]:
    """What is demanded of a run, with its coverage: None where nothing of it is planned."""
    for family in Family:
        covered = coverage.families.get(family)
        is_due = covered is not None and covered.due > 0
        if options.require is None:
            required = family in _REQUIRED_WHERE_PLANNED and is_due
        else:
            required = family in options.require
        if required:
            yield family, covered if is_due else None


def is_short(covered: FamilyCoverage, options: AuditOptions) -> bool:
    """Whether less than the demanded percent of a family was checked."""
    return covered.checked * 100 < options.min_coverage * covered.due


def shortfalls(coverage: Coverage, options: AuditOptions) -> list[str]:
    """Sentences on required families below the demanded coverage, and what to pass."""
    reasons = []
    for family, covered in required_families(coverage, options):
        if covered is None:
            why = coverage.absent.get(family, "nothing planned")
            reasons.append(
                f"{family} is required, but nothing of it is planned ({why}): {_WAYS_OUT[family]}"
            )
        elif is_short(covered, options):
            reasons.append(
                f"{family}: {covered.checked:,} of {covered.due:,} checked, less than the required "
                f"{options.min_coverage:g}%: {_missing(family, covered, coverage)}"
            )
    return reasons


def _missing(family: Family, covered: FamilyCoverage, coverage: Coverage) -> str:
    """What to pass so that the rest can be checked."""
    ways = []
    if family is Family.INDEX and not covered.checked and covered.scope:
        ways.append("run a rule of the index: --select KV1")
    if covered.details.get("not_in_snapshot"):
        ways.append("dump every planned slot and column")
    if coverage.disabled_launches and family is not Family.BYTES:
        ways.append("raise the plan's capacity, as disabled launches check nothing")
    if covered.details.get("columns_absent"):
        ways.append("dump bytes or digests of every stamped column")
    if family is Family.BYTES and not ways:
        ways.append("dump every planned slot, at the end of a step")
    return "; ".join([*ways, "or lower --min-coverage"]) if ways else "lower --min-coverage"
