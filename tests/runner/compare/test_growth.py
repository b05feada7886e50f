from __future__ import annotations

from kvaudit.backends.availability import choose
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.comparison_evidence import PoolAtStep
from kvaudit.core.observer import SilentObserver
from kvaudit.core.snapshot import PoolKey
from kvaudit.runner.compare.growth import pool_at_step
from tests.helpers.comparing import change_byte, dumped
from tests.helpers.worlds import World


def _state(world: World, **options: object) -> PoolAtStep:
    backend, _ = choose("cpu", kv_bytes=0, num_entries=0)
    pools = world.dataset().pools
    return pool_at_step(
        pools[0],
        beside=pools,
        backend=backend,
        options=AuditOptions(**options),
        observer=SilentObserver(),
    )


def test_an_audit_counts_the_failed_rows_and_names_their_slots_and_requests() -> None:
    world = dumped(key=PoolKey(step=7))
    clean = _state(world)
    assert (clean.step, clean.num_failed, clean.slots) == (7, 0, [])
    change_byte(world, 4)
    state = _state(world)
    assert (state.num_failed, state.slots, state.request_ids) == (2, [4], ["A"])
    assert state.num_checked == clean.num_checked > 0


def test_the_scope_of_the_comparison_is_that_of_the_audit() -> None:
    world = dumped(key=PoolKey(step=7))
    change_byte(world, 4)
    assert _state(world, request_ids=("B",)).num_failed == 0
    assert _state(world, layers=(0,)).num_failed == 0
