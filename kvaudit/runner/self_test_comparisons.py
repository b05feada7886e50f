"""The rules of comparison in the self-test: a small pool, and a copy that parts from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.backend import Backend
from kvaudit.core.comparison import CompareOptions
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.observer import SilentObserver
from kvaudit.core.report import BackendChoice, Report, Verdict
from kvaudit.core.snapshot import PoolKey
from kvaudit.runner.compare import compare
from kvaudit.runner.inject import inject


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceClass:
    """A way in which two dumps of one pool part.

    Fields:
        name: the name of the rule that finds it.
        rule: that rule's id.
        fault: the fault class that the second dump has, and the first one has not.
        left: the pairing key of the first dump.
        right: that of the second.
    """

    name: str
    rule: str
    fault: str
    left: PoolKey
    right: PoolKey


DIVERGENCE_CLASSES: Final = (
    DivergenceClass(
        name="rank-divergence",
        rule="KV401",
        fault="canary-bit-flip",
        left=PoolKey(rank=0),
        right=PoolKey(rank=1),
    ),
    DivergenceClass(
        name="transfer-divergence",
        rule="KV402",
        fault="bytes-changed",
        left=PoolKey(tier="device"),
        right=PoolKey(tier="host"),
    ),
    DivergenceClass(
        name="violations-growing",
        rule="KV403",
        fault="bytes-changed",
        left=PoolKey(step=1),
        right=PoolKey(step=2),
    ),
)


def divergence_problem(
    pool: AuditedPool,
    divergence: DivergenceClass,
    *,
    seeds: Sequence[int],
    backend: Backend,
    choice: BackendChoice,
) -> str:
    """What a comparison says instead of what it should; "" if it finds every copy.

    Args:
        pool: a stamped pool without a fault.
        divergence: how the copy parts from it.
        seeds: places of the damage.
        backend: what computes.
        choice: which backend that is.

    Raises:
        BackendError: the backend failed while it ran.
        SelfCheckFailed: the backend missed a planted bad entry.
    """
    left = _keyed(pool, divergence.left)
    same = _compared(left, _keyed(pool, divergence.right), backend, choice=choice)
    if same.findings or same.verdict is not Verdict.CLEAN:
        return "equal dumps do not compare as clean"
    for seed in seeds:
        injection = inject(pool, divergence.fault, seed=seed)
        right = _keyed(injection.pool, divergence.right)
        report = _compared(left, right, backend, choice=choice, select=(divergence.rule,))
        named = [finding.rule for finding in report.findings]
        if named != [divergence.rule]:
            return f"with seed {seed} a comparison names {', '.join(named) or 'nothing'}"
        found, damage = report.findings[0], injection.damage
        if list(damage.slots) != list(found.slots):
            return f"with seed {seed} in slots {damage.slots} it is in {found.slots}"
        if set(damage.request_ids) != set(found.request_ids):
            return f"with seed {seed} in requests {damage.request_ids} it is in {found.request_ids}"
    return ""


def _keyed(pool: AuditedPool, key: PoolKey) -> AuditedPool:
    return replace(pool, snapshot=replace(pool.snapshot, key=key))


def _compared(
    left: AuditedPool,
    right: AuditedPool,
    backend: Backend,
    *,
    choice: BackendChoice,
    select: tuple[str, ...] = (),
) -> Report:
    return compare(
        [Dataset(pools=[left]), Dataset(pools=[right])],
        backend=backend,
        choice=choice,
        options=CompareOptions(audit=AuditOptions(select=select)),
        observer=SilentObserver(),
    )
