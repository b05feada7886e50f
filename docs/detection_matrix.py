"""What an audit makes of every fault class, by layout, content and options of the dump."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from docs.detection_pools import (
    OF_THE_ALLOCATOR,
    Layout,
    base_pool,
    plan_of,
)
from kvaudit.backends.availability import choose
from kvaudit.capture.pool_dump import PoolDump
from kvaudit.constants import UNKNOWN_TOKEN
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayColumn, KvColumn, RowColumn
from kvaudit.core.observer import SilentObserver
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import Snapshot
from kvaudit.diagnosis.byte_rows import folded, words_of
from kvaudit.errors import ConfigError
from kvaudit.runner.audit import audit
from kvaudit.runner.inject import FaultClass, inject

CONTENTS: Final = ("bytes", "digests", "digests of pages", "records alone")
STAMPS: Final = ("none", "partial", "all")
EXPECTATIONS: Final = ("sequences", "sequences, no tokens", "plan", "plan, no tokens", "none")
# Seeds of the places that each class is put into: several where the place decides. A bit of KV turns
# over in K of layer 0, another layer, V and a side buffer; one of a record in each of its words.
_PLACES: Final = (0,)
_PLACES_OF: Final = {"KV304": (0, 1, 5, 11), "KV208": (0, 2, 3)}

NAMED: Final = "named"
ROWS: Final = "rows"
UNSEEN: Final = "unseen"


@dataclass(frozen=True, kw_only=True)
class View:
    """What of a pool a dump keeps, and what it is judged by; one of each of the tuples above."""

    content: str
    stamps: str
    expectations: str


def views() -> Iterator[View]:
    """Every combination that is one: what has no records judges no tokens, and no bytes no stamps."""
    for content in CONTENTS:
        for stamps in STAMPS:
            for expectations in EXPECTATIONS:
                no_tokens = expectations.endswith("no tokens")
                if content == "digests of pages" and (no_tokens or stamps == "none"):
                    continue
                if content == "records alone" and stamps != "none":
                    continue
                yield View(content=content, stamps=stamps, expectations=expectations)


class Matrix:
    """Injects and audits; each outcome is NAMED, the other rules that are named, ROWS or UNSEEN.

    A named rule that is an alternative only stands in parentheses.
    """

    def __init__(self) -> None:
        self._backend, self._choice = choose("cpu", kv_bytes=0, num_entries=0)
        self._bases: dict[tuple[object, ...], AuditedPool] = {}

    def outcomes(self, fault: FaultClass, layout: Layout) -> Mapping[View, frozenset[str]]:
        """Of each view the outcomes at some places; a view that cannot have the fault is absent."""
        found: dict[View, set[str]] = {}
        for is_combined in (False, True):
            base = self._base(fault, layout, is_combined=is_combined)
            for seed in _PLACES_OF.get(fault.rule, _PLACES):
                try:
                    damaged = inject(base, fault.name, seed=seed).pool
                except ConfigError:
                    break
                for view in views():
                    if (view.stamps != "none") == is_combined and _shows(fault, view):
                        pool = _seen(damaged, view, layout)
                        found.setdefault(view, set()).add(self._outcome(pool, fault))
        return {view: frozenset(outcomes) for view, outcomes in found.items()}

    def _base(self, fault: FaultClass, layout: Layout, *, is_combined: bool) -> AuditedPool:
        has_tables = fault.rule in OF_THE_ALLOCATOR
        has_side = not has_tables and fault.rule != "KV305"
        has_plan = fault.rule == "KV103"
        key = (layout, is_combined, has_side, has_tables, has_plan)
        if key not in self._bases:
            pool = base_pool(
                self._backend,
                layout,
                is_combined=is_combined,
                has_side=has_side,
                has_tables=has_tables,
            )
            if has_plan:
                pool = AuditedPool(snapshot=pool.snapshot, plans=(plan_of(pool),))
            self._bases[key] = pool
        return self._bases[key]

    def _outcome(self, pool: AuditedPool, fault: FaultClass) -> str:
        report = audit(
            Dataset(pools=[pool]),
            backend=self._backend,
            choice=self._choice,
            options=AuditOptions(max_violations=1),
            observer=SilentObserver(),
        )
        errors = [each.rule for each in report.findings if each.severity is Severity.ERROR]
        others = [f"({each.rule})" for each in report.findings if each.severity is None]
        if fault.rule in errors:
            return NAMED
        if errors or others:
            return " + ".join(dict.fromkeys((*errors, *others)))
        return ROWS if report.violations_total else UNSEEN


def _shows(fault: FaultClass, view: View) -> bool:
    """A plan's own fault needs a plan."""
    return fault.rule != "KV103" or view.expectations.startswith("plan")


def _seen(pool: AuditedPool, view: View, layout: Layout) -> AuditedPool:
    """A pool as a dump of less shows it."""
    snapshot = _stripped(pool.snapshot, view, layout)
    sequences, plans = tuple(pool.sequences), tuple(pool.plans)
    if view.content == "digests of pages":
        snapshot = _by_page(snapshot, pool)
    if view.expectations.startswith("plan"):
        plans = plans or (plan_of(pool),)
        sequences = ()
    if view.expectations.endswith("no tokens"):
        sequences = tuple(
            replace(part, tokens=np.full_like(part.tokens, UNKNOWN_TOKEN)) for part in sequences
        )
        plans = tuple(
            replace(
                plan,
                launches=[
                    replace(each, check_verify_expected_token=False) for each in plan.launches
                ],
            )
            for plan in plans
        )
    if view.expectations == "none":
        sequences, plans = (), ()
    return AuditedPool(snapshot=snapshot, sequences=sequences, plans=plans)


def _stripped(snapshot: Snapshot, view: View, layout: Layout) -> Snapshot:
    first = layout.columns[0]
    kept = {"none": (), "partial": (first,), "all": tuple(snapshot.stamped)}[view.stamps]
    stamped = {name: column for name, column in snapshot.stamped.items() if name in kept}
    if view.content == "bytes":
        return replace(snapshot, stamped=stamped)
    if view.content == "records alone":
        return replace(snapshot, stamped={}, kv={})
    digests = {name: _digests(column) for name, column in snapshot.kv.items()}
    return replace(snapshot, stamped=stamped, kv={}, digests=digests)


def _digests(column: KvColumn) -> RowColumn:
    data = column.read_rows(0, column.num_rows)[:, : column.read_bytes]
    values: NDArray[np.int64] = folded(words_of(data)).view(np.int64)
    return ArrayColumn(name=column.name, values=values)


def _by_page(snapshot: Snapshot, pool: AuditedPool) -> Snapshot:
    """One digest a page, of the slots in use."""
    named = [part.slots for part in pool.sequences]
    named += [launch.plan.verify_slot_indices for plan in pool.plans for launch in plan.launches]
    rows = np.unique(snapshot.rows_of(np.concatenate(named)))
    rows = rows[rows >= 0]
    snapshot = replace(
        snapshot,
        slots=snapshot.slots[rows],
        canary={},
        stamped=_rows_of(snapshot.stamped, rows),
        digests=_rows_of(snapshot.digests, rows),
        evidence=_rows_of(snapshot.evidence, rows),
    )
    whole = PoolDump(snapshot=snapshot, sequences=pool.sequences[0] if pool.sequences else None)
    return whole.by_page().snapshot


def _rows_of(columns: Mapping[str, RowColumn], rows: NDArray[np.int64]) -> dict[str, RowColumn]:
    return {
        name: ArrayColumn(name=column.name, values=column.read()[rows])
        for name, column in columns.items()
    }
