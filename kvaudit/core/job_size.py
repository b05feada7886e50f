"""How much a run has to do, before anything of it is read: what a choice of backend goes by."""

from __future__ import annotations

from collections.abc import Sequence

from kvaudit.core.dataset import AuditedPool


def kv_bytes_of(pools: Sequence[AuditedPool]) -> int:
    """KV bytes that a run may fold."""
    return sum(
        column.read_bytes * column.num_rows
        for pool in pools
        for column in pool.snapshot.kv.values()
    )


def num_entries_of(pools: Sequence[AuditedPool]) -> int:
    """Entries that a run may check, over all launches; without expectations any record is one."""
    return sum(
        max(1, len(pool.snapshot.canary)) * sum(len(part.slots) for part in pool.sequences)
        + sum(
            len(launch.plan) * (1 if launch.tags is None else len(launch.tags))
            for plan in pool.plans
            for launch in plan.launches
        )
        if pool.sequences or pool.plans
        else len(pool.snapshot.canary) * pool.snapshot.num_rows
        for pool in pools
    )
