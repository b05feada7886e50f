"""Which of the rows that failed are zero."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.zero_content import ZeroRows, zero_rows
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, fixture_f


def _zero(world: World) -> ZeroRows:
    return zero_rows(Failures(failing(world)).byte_view)


@pytest.mark.parametrize("mode", RealKvHashMode)
def test_a_row_without_record_and_bytes_is_told_from_one_with_a_record(
    mode: RealKvHashMode,
) -> None:
    world = fixture_f(mode=mode, stamps=F_STAMPS)
    corruptions.zero_slots(world, [8, 9])
    corruptions.zero_slots(world, [3], records=False)
    zero = _zero(world)
    assert zero.without_record.tolist() == [8, 9]
    assert zero.with_record.tolist() == [3]
    assert set(zero.columns) == set(F_STAMPS)


def test_a_zero_record_beside_bytes_is_no_zero_row() -> None:
    world = fixture_f()
    corruptions.zero_slots(world, [8, 9], data=False)
    assert not _zero(world).without_record.size


def test_the_columns_of_a_combined_hash_are_looked_at_one_by_one() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamped_columns=("kv.k.0", "kv.k.1"))
    world.kv["kv.k.1"][7] = 0
    zero = _zero(world)
    assert {name: rows.tolist() for name, rows in zero.columns.items()} == {"kv.k.1": [7]}
