"""Blame: everything that a dump says of one slot, with what an audit of its pool finds there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvaudit.core.audit_options import AuditOptions, Layer0
from kvaudit.core.backend import Backend
from kvaudit.core.blame_report import BlameReport
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.layout import SlotRanges
from kvaudit.core.observer import RunObserver, SilentObserver
from kvaudit.core.report import BackendChoice, Timing
from kvaudit.diagnosis.registry import chosen_rules
from kvaudit.diagnosis.rule import Rule
from kvaudit.errors import ConfigError
from kvaudit.runner.blame.slot_case import SlotCase
from kvaudit.runner.blame.target import slot_meant
from kvaudit.runner.expectations import expectations_of, scope_of, swa_pool_of
from kvaudit.runner.pool_audit import PoolAudit, PoolResult
from kvaudit.runner.self_check import prepare

# Failed rows of the slot that are listed.
_MAX_ROWS: Final = 1000
# Pools that an error message lists.
_MAX_NAMED: Final = 8


def blame(
    dataset: Dataset,
    target: str,
    *,
    backend: Backend,
    choice: BackendChoice,
    options: AuditOptions,
    observer: RunObserver,
) -> BlameReport:
    """Gather what is known of one slot, and audit its pool.

    Args:
        dataset: one pool.
        target: the slot, or a request and a position: `873`, `tale@9`.
        backend: what computes.
        choice: which backend that is, and why.
        options: whether the audit that gives the findings reads the pool's KV bytes (the slot's own
            are compared all the same), and what it judges layer 0 by; nothing else of it is used.
        observer: told of progress.

    Raises:
        ConfigError: there are several pools, or the target names no slot of the snapshot.
        InputError: a file of the pool cannot be used.
        BackendError: the backend failed while it ran.
        SelfCheckFailed: the backend missed a planted bad entry.
    """
    pool = _only_pool(dataset)
    expectations = expectations_of(pool, ALL_ENTRIES)
    slot = slot_meant(target, snapshot=pool.snapshot, expectations=expectations)
    passed = prepare(backend, observer)
    started = time.perf_counter()
    whole = _audited(
        pool,
        AuditOptions(skip_bytes=options.skip_bytes, layer0=options.layer0, max_violations=0),
        rules=chosen_rules((), ()),
        backend=backend,
        observer=observer,
    )
    alone = _audited(
        _without_double_digests(pool),
        AuditOptions(
            slots=SlotRanges(((slot, slot),)), max_violations=_MAX_ROWS, layer0=Layer0.OFF
        ),
        backend=backend,
        observer=SilentObserver(),
    )
    case = SlotCase(
        pool=pool,
        slot=slot,
        backend=backend,
        sources=expectations.sources,
        findings=whole.findings,
        failed=alone.violations,
        identity=whole.identity,
    )
    report = case.report(choice=choice, self_check=passed, skip_bytes=options.skip_bytes)
    return replace(
        report,
        inputs=dataset.files,
        timing=Timing(
            seconds=time.perf_counter() - started,
            kv_bytes=0 if whole.bytes is None else whole.bytes.kv_bytes,
        ),
    )


def _only_pool(dataset: Dataset) -> AuditedPool:
    """The one pool of a dataset that is whole.

    Raises:
        ConfigError: there are several.
        InputError: a file cannot be used.
    """
    if dataset.left_out:
        raise dataset.left_out[0]
    if len(dataset.pools) > 1:
        paths = [pool.snapshot.path for pool in dataset.pools]
        more = " and others" if len(paths) > _MAX_NAMED else ""
        raise ConfigError(
            f"a slot is of one pool, and there are {len(paths)}",
            hint=f"name one of the snapshots: {', '.join(paths[:_MAX_NAMED])}{more}",
        )
    return dataset.pools[0]


def _audited(
    pool: AuditedPool,
    options: AuditOptions,
    *,
    rules: Sequence[Rule] = (),
    backend: Backend,
    observer: RunObserver,
) -> PoolResult:
    """The pool's audit, as `verify` runs it."""
    return PoolAudit(
        pool=pool,
        expectations=expectations_of(pool, scope_of(options)),
        swa_pool=swa_pool_of(pool, [pool]),
        backend=backend,
        options=options,
        rules=rules,
        observer=observer,
    ).run()


def _without_double_digests(pool: AuditedPool) -> AuditedPool:
    """The pool without the digests of columns whose bytes it has.

    They are held against all bytes of a column, which the audit of the pool has done.
    """
    snapshot = pool.snapshot
    digests = {name: column for name, column in snapshot.digests.items() if name not in snapshot.kv}
    return replace(pool, snapshot=replace(snapshot, digests=digests))
