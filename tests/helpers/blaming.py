"""One slot of a world, as `kvaudit blame` gathers it, on the CPU."""

from __future__ import annotations

from kvaudit.backends.availability import choose
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.blame_report import BlameReport
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.observer import SilentObserver
from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.blame import blame
from tests.helpers.worlds import World


def blamed(
    pools: World | Dataset, target: str | int, *, backend: str = "cpu", **options: object
) -> BlameReport:
    """All that is known of a slot, or of a request's position."""
    chosen, choice = choose(backend, kv_bytes=0, num_entries=0)
    return blame(
        pools.dataset() if isinstance(pools, World) else pools,
        str(target),
        backend=chosen,
        choice=choice,
        options=AuditOptions(**options),
        observer=SilentObserver(),
    )


def alone(snapshot: Snapshot) -> Dataset:
    """A snapshot without expectations."""
    return Dataset(pools=[AuditedPool(snapshot=snapshot)])


def by_plan(world: World, **options: object) -> Dataset:
    """A world whose expectations are a plan."""
    plans = (world.plan(**options),)
    return Dataset(pools=[AuditedPool(snapshot=world.snapshot(), plans=plans)])
