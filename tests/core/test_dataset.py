"""What an audit is given."""

from __future__ import annotations

from kvaudit import api
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.report import Verdict
from kvaudit.core.snapshot import PoolKey
from tests.helpers.worlds import fixture_f


def test_a_pool_in_memory_needs_no_files_and_is_incomplete_without_expectations() -> None:
    [known] = fixture_f().dataset().pools
    assert api.audit(Dataset(pools=[known]), backend="reference").verdict is Verdict.CLEAN
    unknown = AuditedPool(snapshot=fixture_f(key=PoolKey(rank=1)).snapshot())
    report = api.audit(Dataset(pools=[known, unknown]), backend="reference")
    assert report.verdict is Verdict.INCOMPLETE
    assert [file.path for file in report.inputs] == []
    assert len(report.incomplete_reasons) == 1
    assert "FULL.r1" in report.incomplete_reasons[0]
