from __future__ import annotations

import pytest

from kvaudit.backends.availability import choose
from kvaudit.core.comparison import CompareOptions, LegKind
from kvaudit.core.snapshot import PoolKey
from kvaudit.diagnosis.registry import RULES
from kvaudit.runner.compare.pool import PoolComparison
from tests.helpers.comparing import HOST, THERE, change_byte, dumped
from tests.helpers.watcher import Watcher


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_each_dump_is_compared_with_the_next_and_audited_where_only_the_step_differs(
    backend: str,
) -> None:
    first, second = dumped(key=PoolKey(step=1)), dumped(key=PoolKey(step=2))
    change_byte(second, 4)
    third = dumped(THERE, key=HOST)
    watcher = Watcher()
    legs = PoolComparison(
        pools=[world.dataset().pools[0] for world in (first, second, third)],
        beside=[world.dataset().pools for world in (first, second, third)],
        backend=choose(backend, kv_bytes=0, num_entries=0)[0],
        options=CompareOptions(),
        rules=RULES,
        observer=watcher,
    ).run()
    assert [leg.leg.kind for leg in legs] == [LegKind.STEPS, LegKind.TRANSFER]
    assert [finding.rule for finding in legs[0].findings] == ["KV402", "KV403"]
    assert not legs[1].findings
    assert [leg.kv_bytes for leg in legs] == [3 * 8 * 4 * 16, 0]
