from __future__ import annotations

from kvaudit.constants import LaunchTag
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.job_size import kv_bytes_of, num_entries_of
from tests.helpers.comparing import dumped


def test_every_row_of_every_column_may_be_folded() -> None:
    pool = dumped().dataset().pools[0]
    assert kv_bytes_of([pool, pool]) == 2 * 16 * 4 * 16
    assert kv_bytes_of([AuditedPool(snapshot=dumped().snapshot(digests_only=True))]) == 0


def test_entries_are_those_of_all_launches_and_without_expectations_any_record() -> None:
    world = dumped()
    assert num_entries_of(world.dataset().pools) == 3 * 8
    tags = (LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL)
    planned = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(tags=tags),))
    assert num_entries_of([planned]) == 2 * 8
    assert num_entries_of([AuditedPool(snapshot=world.snapshot())]) == 3 * 16
