from __future__ import annotations

import pytest

from kvaudit.errors import SchemaMismatch
from kvaudit.importers.saved_report import saved_report_of

FINDING = {
    "rule": "KV101",
    "name": "slot-alias",
    "severity": "error",
    "summary": "slot 4",
    "request_ids": ["A"],
    "alternatives": [],
    "settled_by": "",
}
REPORT = {
    "schema": "kvaudit.report/1",
    "verdict": "violations",
    "exit_code": 1,
    "coverage": {
        "index": {"planned": 4, "checked": 4, "ratio": 1.0},
        "records": None,
        "bytes": None,
        "identity": None,
    },
    "violations": {"total": 3, "shown": 0, "rows": []},
    "findings": [FINDING, {**FINDING, "severity": None}],
    "incomplete_reasons": [],
}


def test_a_report_is_read_in_short() -> None:
    report = saved_report_of(REPORT, path="r.json")
    assert (report.verdict, report.exit_code, report.num_violations) == ("violations", 1, 3)
    assert report.coverage == {"index": (4, 4)}
    assert [finding.severity for finding in report.findings] == ["error", "alternative"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"schema": "kvaudit.bench/1"}, id="another document"),
        pytest.param({"verdict": 3}, id="verdict"),
        pytest.param({"violations": {}}, id="no total"),
        pytest.param({"violations": 3}, id="no mapping"),
        pytest.param({"coverage": {}}, id="no family"),
        pytest.param({"findings": [{}]}, id="empty finding"),
        pytest.param({"findings": 3}, id="no list"),
        pytest.param({"exit_code": True}, id="no number"),
        pytest.param({"exit_code": 10**400}, id="no such number"),
    ],
)
def test_what_is_no_whole_report_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        saved_report_of({**REPORT, **change}, path="r.json")
    assert caught.value.path == "r.json"
    assert caught.value.hint
