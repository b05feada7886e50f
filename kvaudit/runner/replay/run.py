"""The loop of a replay: each row of a trace in its order, and the snapshots between them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.backend import Backend
from kvaudit.core.divergence import Divergence, DivergenceKind, Divergences
from kvaudit.core.entries import slot_shift_of
from kvaudit.core.fail_reason import reason_labels
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.observer import RunObserver
from kvaudit.core.recorded_run import RecordedMoment, RecordedRun
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.core.report import BackendChoice, Report
from kvaudit.core.violation import Violation
from kvaudit.runner.live import CanaryConfig
from kvaudit.runner.replay.canary import ReplayCanary, replay_config
from kvaudit.runner.replay.launch_counts import LaunchCounts
from kvaudit.runner.replay.moment_bytes import BytesComparer
from kvaudit.runner.replay.moments import MomentComparer, MomentResult
from kvaudit.runner.replay.place import ReplayPlace
from kvaudit.runner.replay.plan_check import plan_divergences
from kvaudit.runner.replay.replay_report import ReplayOutcome, report_of
from kvaudit.runner.replay.replayed_pool import ReplayedPool
from kvaudit.runner.replay.ring_reader import RingReader
from kvaudit.runner.replay.slot_history import SlotHistory
from kvaudit.runner.replay.step_plans import StepPlanner, StepPlans
from kvaudit.runner.replay.tables import ReplayTables
from kvaudit.runner.self_check import prepare

_HIGHEST_SLOT: Final = int(np.iinfo(np.int32).max)
# Rows between two reports of progress.
_ROWS_PER_ADVANCE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How a replay runs.

    Fields:
        audit: demands and limits; its scope is not used.
        config: the canary's: statistics, sweeps, health checks and ring.
    """

    audit: AuditOptions = field(default_factory=AuditOptions)
    config: CanaryConfig = field(default_factory=CanaryConfig)


def replay_run(
    run: RecordedRun,
    *,
    backend: Backend,
    choice: BackendChoice,
    place: ReplayPlace,
    options: ReplayOptions,
    observer: RunObserver,
) -> Report:
    """Run a recorded run again, and hold it against its snapshots.

    Args:
        run: the run.
        backend: what folds the bytes of snapshots.
        choice: which backend that is, and why.
        place: where the launches run.
        options: demands, limits, and the canary's configuration.
        observer: told of progress.

    Raises:
        InputError: a row or a snapshot cannot be used.
        BackendError: the device failed.
        ConfigError: the options name a rule that does not exist.
        SelfCheckFailed: the backend missed a planted bad entry.
    """
    passed = prepare(backend, observer, writes=True)
    started = time.perf_counter()
    replay = _Replay(run, backend=backend, place=place, options=options)
    replay.run_all(observer)
    return report_of(
        replay.outcome(),
        run=run,
        choice=choice,
        options=options.audit,
        self_check=passed,
        seconds=time.perf_counter() - started,
    )


class _Replay:
    """One run in the middle of its replay."""

    def __init__(
        self, run: RecordedRun, *, backend: Backend, place: ReplayPlace, options: ReplayOptions
    ) -> None:
        self._run = run
        snapshot, extent = run.start.snapshot, run.trace.extent
        shift = slot_shift_of(snapshot)
        num_slots = snapshot.num_slots + shift
        tables = ReplayTables(
            extent,
            path=run.trace.path,
            num_slots=num_slots,
            # The map of a window pool has one slot more than the pool.
            highest_slot=num_slots if snapshot.key.pool_kind is PoolKind.SWA else _HIGHEST_SLOT,
            device=place.device,
        )
        canary = ReplayCanary(
            run,
            config=replay_config(options.config),
            place=place,
            finished=tables.finished,
            shift=shift,
        )
        history = SlotHistory(num_slots, start_step=run.start_step, known=canary.load(snapshot))
        self._pool = ReplayedPool(canary=canary, tables=tables, history=history)
        self._planner = StepPlanner(canary, tables, max_requests=extent.max_requests)
        self._bytes = (
            None if options.audit.skip_bytes else BytesComparer(self._pool, backend=backend)
        )
        self._comparer = MomentComparer(self._pool, bytes_comparer=self._bytes)
        self._ring = RingReader(self._pool, key=run.trace.key)
        self._counts = LaunchCounts(self._pool)
        self._divergences = Divergences()
        self._moments: deque[RecordedMoment] = deque(run.later)
        self._byte_rows: list[Violation] = []
        self._num_byte_rows = 0
        self._num_steps = 0
        self._step = run.start_step
        self._has_begun = False

    def run_all(self, observer: RunObserver) -> None:
        """Every row up to the last step, and every snapshot."""
        run = self._run
        observer.stage("replay", run.trace.extent.num_rows)
        waiting = 0
        for recorded in run.trace.steps():
            if run.last_step is not None and recorded.step > run.last_step:
                break
            self._row(recorded)
            waiting += 1
            if waiting == _ROWS_PER_ADVANCE:
                observer.advance(waiting)
                waiting = 0
        observer.advance(waiting)
        self._begin()
        while self._moments:
            self._compare(self._moments.popleft())
        self._pool.canary.finish(step=self._step)

    def outcome(self) -> ReplayOutcome:
        """What the replay found."""
        return ReplayOutcome(
            pool=self._pool,
            ring=self._ring,
            counts=self._counts,
            comparer=self._comparer,
            bytes_comparer=self._bytes,
            divergences=self._divergences,
            byte_rows=self._byte_rows,
            num_byte_rows=self._num_byte_rows,
            num_steps=self._num_steps,
        )

    def _row(self, recorded: RecordedStep) -> None:
        if recorded.step <= self._run.start_step:
            # The first snapshot has what these rows wrote; the tables are the trace's alone.
            self._pool.tables.change(recorded, shift=self._pool.canary.shift)
            self._pool.fill(recorded)
            return
        self._begin()
        while self._moments and self._moments[0].step < recorded.step:
            self._compare(self._moments.popleft())
        self._step = recorded.step
        self._pool.change(recorded)
        plans = self._planner.planned(recorded)
        self._pool.store(recorded)
        if plans is not None:
            self._launch(recorded, plans)
        self._pool.fill(recorded)

    def _begin(self) -> None:
        """All rows up to the first snapshot are in the tables: it takes over from here."""
        if self._has_begun:
            return
        self._has_begun = True
        run = self._run
        self._pool.begin(run.start)
        self._pool.tables.seen_step = run.start_step
        self._note(self._comparer.compare(run.start, step=run.start_step, is_start=True))

    def _launch(self, recorded: RecordedStep, plans: StepPlans) -> None:
        self._num_steps += 1
        self._divergences.add(plan_divergences(recorded, plans, pool=self._pool))
        canary = self._pool.canary
        if plans.is_sweep and plans.verify_plan is not None:
            canary.sweep(plans.verify_plan, plans.tags or ())
        else:
            canary.launch(plans.planned, step=recorded.step)
            self._counts.step(recorded, plans)
        before = self._ring.total
        rows = self._ring.step(plans, step=recorded.step)
        if self._ring.total > before:
            self._divergences.add(
                [_found_by_launch(rows, step=recorded.step)], total=self._ring.total - before
            )

    def _compare(self, moment: RecordedMoment) -> None:
        self._note(self._comparer.compare(moment.read(), step=moment.step))

    def _note(self, result: MomentResult) -> None:
        self._divergences.add(result.divergences, total=result.total)
        self._byte_rows += result.rows
        self._num_byte_rows += result.rows_total


def _found_by_launch(rows: Sequence[Violation], *, step: int) -> Divergence:
    """The first new row of a step; nothing but the step where the ring was full."""
    if not rows:
        return Divergence(kind=DivergenceKind.VIOLATION, first_step=step, last_step=step)
    row = rows[0]
    tag = "" if row.tag is None else row.tag.name
    return Divergence(
        kind=DivergenceKind.VIOLATION,
        first_step=step,
        last_step=step,
        column=" ".join((tag, *reason_labels(row.reasons))),
        slot=row.slot,
        position=row.expected_position,
        request_ids=row.request_ids,
    )
