"""One pool through the families of checks: index, bytes, records, identity, then the rules.

Without expectations its records are judged by the chains that they form, and its bytes wherever
there is a record, or a stamp in a pool without records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.backend import Backend
from kvaudit.core.column_names import stamped_name
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import ALL_ENTRIES, EntrySource
from kvaudit.core.evidence import CoverageGaps, PoolEvidence
from kvaudit.core.failed_rows import FailedRows
from kvaudit.core.finding import Finding
from kvaudit.core.identity import IdentityResult
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.observer import RunObserver
from kvaudit.core.planner import window_of
from kvaudit.core.snapshot import DumpMoment, Snapshot
from kvaudit.core.violation import Violation
from kvaudit.diagnosis.registry import diagnose
from kvaudit.diagnosis.rule import Rule
from kvaudit.runner.bytes_pass import BytesPass, BytesResult
from kvaudit.runner.chain_recovery import ChainRecovery, RecoveredChains, stamped_rows
from kvaudit.runner.column_rows import column_violations
from kvaudit.runner.expectations import Expectations, expectations_of, scope_of
from kvaudit.runner.identity.identity_pass import IdentityPass
from kvaudit.runner.identity.layer0_rows import distance_launcher
from kvaudit.runner.planned_rows import PlannedRows, planned_rows
from kvaudit.runner.records_pass import RecordsPass, RecordsResult
from kvaudit.runner.row_space import RowSpace
from kvaudit.runner.slot_content import SlotContent
from kvaudit.runner.slot_counts import SlotCounter, SlotCounts

# The first differing rows of each column are enough for the rules.
_MAX_DIAGNOSED_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolResult:
    """What one pool's audit counted and found.

    Fields:
        snapshot: the pool.
        expectations: what it was judged by.
        chains: what it was judged by for want of expectations; None where there are some.
        planned: the different slots planned.
        records: the records family.
        bytes: the bytes family; None when it was left out.
        identity: the identity family.
        counts: how many slots were planned, stamped and compared.
        violations: the first rows, of every tag and of columns.
        violations_total: rows, exact.
        findings: what the rules say.
    """

    snapshot: Snapshot
    expectations: Expectations
    chains: RecoveredChains | None
    planned: PlannedRows
    records: RecordsResult
    bytes: BytesResult | None
    identity: IdentityResult
    counts: SlotCounts
    violations: Sequence[Violation]
    violations_total: int
    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolAudit:
    """The audit of one pool.

    Fields:
        pool: the snapshot and its expectation files.
        expectations: the entries that are judged.
        swa_pool: the window pool that this one's `swa_slot` maps to; None when not given.
        backend: what computes.
        options: what the user asked for.
        rules: the rules to run.
        observer: told of progress.
        earlier: what finished sequences had on slots that were given away since.
    """

    pool: AuditedPool
    expectations: Expectations
    swa_pool: Snapshot | None
    backend: Backend
    options: AuditOptions
    rules: Sequence[Rule]
    observer: RunObserver
    earlier: Sequence[AuditedPool] = ()

    def run(self) -> PoolResult:
        """Judge the pool."""
        snapshot = self.pool.snapshot
        space = RowSpace(snapshot)
        chains = None if self.expectations.sources else self._chains(space)
        sources = self.expectations.sources if chains is None else chains.entries
        planned = planned_rows(sources, space)
        if chains is not None and not snapshot.canary and not self.options.skip_bytes:
            planned = planned.with_rows(stamped_rows(snapshot, scope_of(self.options)), space)
        bytes_result, combined = self._bytes(space, planned)
        records = RecordsPass(
            snapshot=snapshot,
            space=space,
            backend=self.backend,
            observer=self.observer,
            sources=sources,
            combined=combined,
            max_rows=self.options.max_violations,
        ).run()
        violations, total = list(records.violations), records.violations_total
        if bytes_result is not None and snapshot.at is not DumpMoment.MID_STEP:
            violations += column_violations(
                bytes_result, snapshot, sources=sources, max_rows=self.options.max_violations
            )
            total += bytes_result.num_differing
        gaps = self._gaps(planned, records, bytes_result)
        evidence = self._evidence(gaps, sources if chains is not None else self._all_sources())
        identity = self._identity(evidence)
        evidence = replace(evidence, identity=identity.evidence)
        if total:
            judged = bytes_result is not None and snapshot.at is not DumpMoment.MID_STEP
            evidence = replace(
                evidence,
                failed=FailedRows.joined(records.failed),
                differing=bytes_result.differences if bytes_result and judged else {},
                content=SlotContent(snapshot, space=space, backend=self.backend),
            )
        counter = SlotCounter(snapshot=snapshot, space=space, sources=sources, planned=planned)
        return PoolResult(
            snapshot=snapshot,
            expectations=self.expectations,
            chains=chains,
            planned=planned,
            records=records,
            bytes=bytes_result,
            identity=identity,
            counts=counter.count(records, bytes_result, also_read=identity.judged_rows),
            violations=violations,
            violations_total=total,
            findings=diagnose(evidence, self.rules),
        )

    def _all_sources(self) -> tuple[EntrySource, ...]:
        """Everything that names entries: what a bad slot holds may be of a request out of scope."""
        if scope_of(self.options) == ALL_ENTRIES:
            return self.expectations.sources
        return expectations_of(self.pool, ALL_ENTRIES).sources

    def _chains(self, space: RowSpace) -> RecoveredChains:
        """The pool's chains, from its records alone."""
        return ChainRecovery(
            snapshot=self.pool.snapshot,
            space=space,
            backend=self.backend,
            observer=self.observer,
            scope=scope_of(self.options),
        ).run()

    def _bytes(
        self, space: RowSpace, planned: PlannedRows
    ) -> tuple[BytesResult | None, dict[KvHalf, NDArray[np.uint64]]]:
        """The bytes family, and the combined hashes that the records are judged by."""
        if self.options.skip_bytes:
            return None, {}
        return BytesPass(
            snapshot=self.pool.snapshot,
            space=space,
            backend=self.backend,
            observer=self.observer,
            rows=np.flatnonzero(planned.stampable),
            layers=self.options.layers,
            max_rows=max(self.options.max_violations, _MAX_DIAGNOSED_ROWS),
        ).run()

    def _identity(self, evidence: PoolEvidence) -> IdentityResult:
        """The identity family, by the same kernel on every backend but the reference."""
        return IdentityPass(
            evidence=evidence,
            options=self.options,
            launcher=partial(distance_launcher, self.backend, self.observer),
        ).run()

    def _gaps(
        self,
        planned: PlannedRows,
        records: RecordsResult,
        bytes_result: BytesResult | None,
    ) -> CoverageGaps:
        """What the rules KV001 and KV004 speak of."""
        snapshot = self.pool.snapshot
        zero_stamps = () if bytes_result is None else bytes_result.zero_stamps
        gaps = CoverageGaps(
            absent_slots=planned.absent_slots,
            unstamped_columns=(*records.unstamped_columns, *map(stamped_name, zero_stamps)),
            never_stamped_slots=snapshot.slots[planned.rows & ~planned.stampable],
        )
        if snapshot.at is not DumpMoment.MID_STEP or bytes_result is None:
            return gaps
        return replace(
            gaps,
            mid_step=True,
            mid_step_columns={
                name: snapshot.slots[rows] for name, rows in bytes_result.differences.items()
            },
            mid_step_slots=bytes_result.num_differing,
            mid_step_entries=records.real_kv_differences,
        )

    def _evidence(self, gaps: CoverageGaps, sources: Sequence[EntrySource]) -> PoolEvidence:
        snapshot, swa_pool = self.pool.snapshot, self.swa_pool
        wanted = ("swa_slot", "alloc.ref", "alloc.state", "alloc.owner")
        columns = {n: snapshot.evidence[n].read() for n in wanted if n in snapshot.evidence}
        swa_window = snapshot.window if swa_pool is None else (snapshot.window or swa_pool.window)
        return PoolEvidence(
            snapshot=snapshot,
            columns=columns,
            sequences=self.expectations.sequences,
            launches=tuple(entries.launch for entries in self.expectations.launch_entries),
            window=window_of(snapshot),
            swa_window=swa_window if "swa_slot" in columns else None,
            swa_num_slots=None if swa_pool is None else swa_pool.num_slots,
            scope=scope_of(self.options),
            gaps=gaps,
            sources=sources,
            judges_bytes=not self.options.skip_bytes and snapshot.at is not DumpMoment.MID_STEP,
            earlier=self.earlier,
        )
