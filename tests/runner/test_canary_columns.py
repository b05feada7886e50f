"""Launches and their columns."""

from __future__ import annotations

from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.launch_tag import KvHalf, PoolKind
from kvaudit.core.snapshot import PoolKey
from kvaudit.runner.canary_columns import column_of, has_sources, tags_of_columns
from tests.helpers.worlds import fixture_f


def test_a_sweep_reads_the_tails_column() -> None:
    assert column_of(LaunchTag.HEAD_V_SWA) == "v.head"
    assert column_of(LaunchTag.TAIL_K_FULL) == "k.tail"
    assert column_of(LaunchTag.SWEEP_V_FULL) == "v.tail"


def test_tags_follow_from_the_columns_and_the_pool_kind() -> None:
    key = PoolKey(pool_kind=PoolKind.SWA)
    snapshot = fixture_f(canary=("v.tail", "k.head"), key=key).snapshot()
    assert tags_of_columns(snapshot) == (LaunchTag.HEAD_K_SWA, LaunchTag.TAIL_V_SWA)


def test_a_half_without_stamped_columns_has_no_sources() -> None:
    snapshot = fixture_f(mode=RealKvHashMode.ALL).snapshot()
    assert has_sources(snapshot, KvHalf.K)
    assert not has_sources(snapshot, KvHalf.V)
