"""What a replay found, as the report of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kvaudit.constants import LaunchTag
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.canary_health import CanaryHealth
from kvaudit.core.coverage import Coverage, Family, FamilyCoverage
from kvaudit.core.divergence import Divergences
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.launch_tag import LaunchPhase, phase_of
from kvaudit.core.recorded_run import RecordedRun
from kvaudit.core.report import (
    EXIT_CODES,
    BackendChoice,
    InputFile,
    Report,
    TagCounters,
    Timing,
    Verdict,
)
from kvaudit.core.violation import Violation
from kvaudit.diagnosis import (
    kernel_stalled,
    launch_disabled,
    replay_divergence,
    ring_overflow,
)
from kvaudit.diagnosis.registry import chosen_rules, diagnose
from kvaudit.runner.live import CounterSample
from kvaudit.runner.replay.launch_counts import LaunchCounts
from kvaudit.runner.replay.moment_bytes import BytesComparer
from kvaudit.runner.replay.moments import MomentComparer
from kvaudit.runner.replay.recorded_ring import recorded_rows
from kvaudit.runner.replay.replayed_pool import ReplayedPool
from kvaudit.runner.replay.ring_reader import RingReader
from kvaudit.runner.verdict import any_fails, shortfalls

# What a replay can see; the others need expectations of one moment.
REPLAY_RULES: Final = (
    launch_disabled.RULE,
    kernel_stalled.RULE,
    ring_overflow.RULE,
    replay_divergence.RULE,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayOutcome:
    """A replay at its end.

    Fields:
        pool: records, counters and tables.
        ring: the violations of its launches.
        counts: what they were to check, and checked.
        comparer: the snapshots.
        bytes_comparer: their bytes; None where they were left out.
        divergences: the first differences.
        byte_rows: violation rows of slots whose bytes differ, the first of them.
        num_byte_rows: all of those.
        num_steps: steps that launched something.
    """

    pool: ReplayedPool
    ring: RingReader
    counts: LaunchCounts
    comparer: MomentComparer
    bytes_comparer: BytesComparer | None
    divergences: Divergences
    byte_rows: Sequence[Violation]
    num_byte_rows: int
    num_steps: int


def report_of(
    outcome: ReplayOutcome,
    *,
    run: RecordedRun,
    choice: BackendChoice,
    options: AuditOptions,
    self_check: str,
    seconds: float,
) -> Report:
    """The report of a replay.

    Raises:
        ConfigError: the options name a rule that does not exist.
    """
    sample = CounterSample.of(outcome.pool.canary.state.words.cpu(), step=outcome.num_steps)
    recorded = recorded_rows(run.state, outcome.ring, shift=outcome.pool.canary.shift)
    health = _health(outcome, run)
    findings = _findings(outcome, run=run, health=health, options=options)
    coverage = _coverage(outcome, sample)
    total = outcome.ring.total + outcome.num_byte_rows + recorded.total
    reasons = [*_unhealthy(health), *shortfalls(coverage, options)]
    if not outcome.num_steps and not any(coverage.families.values()):
        reasons.append("nothing was replayed: no row of the trace is after the first snapshot")
    verdict = Verdict.INCOMPLETE if reasons else Verdict.CLEAN
    if total or any_fails(findings, options):
        verdict = Verdict.VIOLATIONS
    rows = [*outcome.ring.rows, *outcome.byte_rows, *recorded.rows]
    return Report(
        verdict=verdict,
        exit_code=EXIT_CODES[verdict],
        inputs=[_noted(file, outcome.comparer.mid_step) for file in run.files],
        backend=choice,
        self_check=self_check,
        coverage=coverage,
        tags=_tags(outcome, sample),
        violations_total=total,
        violations=sorted(rows, key=Violation.sort_key)[: options.max_violations],
        findings=findings,
        page_sizes=dict.fromkeys({row.key for row in rows}, run.start.snapshot.page_size),
        incomplete_reasons=reasons,
        timing=Timing(
            seconds=seconds,
            kv_bytes=0 if outcome.bytes_comparer is None else outcome.bytes_comparer.kv_bytes,
        ),
    )


def _noted(file: InputFile, mid_step: Sequence[str]) -> InputFile:
    """A file, with what the replay has to say of it."""
    if file.path not in mid_step:
        return file
    return replace(file, notes=[*file.notes, "not compared: it was taken in mid-step"])


def _findings(
    outcome: ReplayOutcome, *, run: RecordedRun, health: CanaryHealth, options: AuditOptions
) -> list[Finding]:
    """Errors first."""
    evidence = PoolEvidence(
        # What is found is of the run, not of the step that it began with.
        snapshot=replace(run.start.snapshot, key=run.trace.key),
        launches=outcome.counts.disabled,
        health=health,
    )
    chosen = [rule for rule in chosen_rules(options.select, options.ignore) if rule in REPLAY_RULES]
    findings = diagnose(evidence, chosen)
    return sorted(findings, key=lambda each: 1 if each.severity is None else -each.severity.rank)


def _health(outcome: ReplayOutcome, run: RecordedRun) -> CanaryHealth:
    """The engine's own ring where it overflowed, else the replay's."""
    state = run.state
    canary = outcome.pool.canary
    is_theirs = state is not None and state.is_overflown
    return CanaryHealth(
        stalls=tuple(canary.stalls),
        uncounted=() if state is None else tuple(outcome.counts.uncounted(state)),
        violations=(state.violation_write_index if state and is_theirs else outcome.ring.total),
        ring_capacity=state.ring_capacity if state and is_theirs else canary.state.ring_capacity,
        divergences=outcome.divergences,
    )


def _unhealthy(health: CanaryHealth) -> list[str]:
    """Sentences on launches that did not run: what they were to check was not checked."""
    reasons = [
        f"launches of {', '.join(tag.name for tag in stall.tags)} stood still at the check of step "
        f"{stall.step}: find the code path of the engine that left them out"
        for stall in health.stalls[:1]
    ]
    reasons += [
        f"{each.tag.name}: {each.counted:,} launches counted, and the trace tells of {each.told:,}: "
        "find the code path of the engine that left them out"
        for each in health.uncounted
    ]
    return reasons


def _coverage(outcome: ReplayOutcome, sample: CounterSample) -> Coverage:
    counts, comparer = outcome.counts, outcome.comparer
    swept = sum(sample.slot_runs[tag] for tag in _sweeps(outcome))
    compared = swept + comparer.num_records
    stamps = 0 if outcome.bytes_comparer is None else outcome.bytes_comparer.num_stamps
    records = FamilyCoverage(
        planned=counts.planned + compared,
        checked=counts.verified + compared,
        excused=counts.padding + counts.unstamped,
        details={"skipped_padding": counts.padding, "unstamped": counts.unstamped},
    )
    families = {
        Family.INDEX: _whole(comparer.num_positions),
        Family.RECORDS: records if records.planned else None,
        Family.BYTES: _whole(stamps),
    }
    planned = counts.planned_slots | comparer.compared
    checked = counts.checked_slots | comparer.compared
    return Coverage(
        families=families,
        absent={
            Family.INDEX: "no sequences",
            Family.RECORDS: "nothing to verify",
            Family.BYTES: "left out" if outcome.bytes_comparer is None else "not stamped",
            Family.IDENTITY: "not checked",
        },
        disabled_launches=len(counts.disabled),
        slots_pool=outcome.pool.canary.num_slots - outcome.pool.canary.shift,
        slots_planned=int(planned.sum()),
        slots_checked=int(checked.sum()),
    )


def _whole(count: int) -> FamilyCoverage | None:
    """A family of which all that was planned was compared."""
    return FamilyCoverage(planned=count, checked=count) if count else None


def _tags(outcome: ReplayOutcome, sample: CounterSample) -> list[TagCounters]:
    """The tags that ran, or were to."""
    canary = outcome.pool.canary
    shown = [tag for tag in canary.tags if tag in canary.forward_tags or sample.kernel_runs[tag]]
    return [
        TagCounters(
            tag=tag.name,
            kernel_runs=sample.kernel_runs[tag],
            slots_run=sample.slot_runs[tag],
            checked=(
                sample.slot_runs[tag]
                if phase_of(tag) is LaunchPhase.SWEEP
                else outcome.counts.verified_by(tag)
            ),
            violations=outcome.ring.by_tag[tag],
        )
        for tag in shown
    ]


def _sweeps(outcome: ReplayOutcome) -> list[LaunchTag]:
    return [tag for tag in outcome.pool.canary.tags if phase_of(tag) is LaunchPhase.SWEEP]
