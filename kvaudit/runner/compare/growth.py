"""The same pool at two steps: how each fares in an audit of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.backend import Backend
from kvaudit.core.comparison_evidence import PoolAtStep
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.observer import RunObserver
from kvaudit.runner.expectations import expectations_of, scope_of, swa_pool_of
from kvaudit.runner.pool_audit import PoolAudit
from kvaudit.runner.run_coverage import coverage_of

# Failed rows whose slots are named.
_MAX_ROWS: Final = 1000


def pool_at_step(
    pool: AuditedPool,
    *,
    beside: Sequence[AuditedPool],
    backend: Backend,
    options: AuditOptions,
    observer: RunObserver,
) -> PoolAtStep:
    """Audit one dump by its own expectations, or by its chains, and count what fails.

    Args:
        pool: the dump.
        beside: the pools of the same files, its window pool among them.
        backend: what computes.
        options: scope, as of the comparison.
        observer: told of progress.

    Raises:
        FileCorrupt: a chunk's digest differs.
    """
    wanted = AuditOptions(
        skip_bytes=options.skip_bytes,
        request_ids=options.request_ids,
        layers=options.layers,
        max_violations=_MAX_ROWS,
    )
    result = PoolAudit(
        pool=pool,
        expectations=expectations_of(pool, scope_of(wanted)),
        swa_pool=swa_pool_of(pool, beside),
        backend=backend,
        options=wanted,
        rules=(),
        observer=observer,
    ).run()
    coverage = coverage_of([result], options=wanted, rules=())
    names = [name for row in result.violations for name in row.request_ids]
    return PoolAtStep(
        step=pool.snapshot.key.step or 0,
        path=pool.snapshot.path,
        num_failed=result.violations_total,
        num_checked=sum(family.checked for family in coverage.families.values() if family),
        slots=sorted({row.slot for row in result.violations}),
        request_ids=list(dict.fromkeys(names)),
    )
