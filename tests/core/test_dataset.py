"""What an audit is given."""

from __future__ import annotations

from kvaudit.core.dataset import AuditedPool, Dataset
from tests.helpers.worlds import fixture_f


def test_a_pool_needs_no_expectations_and_a_dataset_no_files() -> None:
    pool = AuditedPool(snapshot=fixture_f().snapshot())
    assert (tuple(pool.sequences), tuple(pool.plans)) == ((), ())
    assert tuple(Dataset(pools=[pool]).files) == ()
