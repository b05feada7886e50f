from __future__ import annotations

import json

from kvaudit.core.report import InputFile, Timing, Verdict
from tests.helpers import reports


def test_a_report_is_one_document_of_json_values() -> None:
    for report in reports.ALL.values():
        document = json.loads(json.dumps(report.to_dict()))
        assert document["schema"] == "kvaudit.report/1"
        assert document["verdict"] in list(Verdict)
        assert document["violations"]["shown"] == len(document["violations"]["rows"])


def test_an_input_says_its_key_and_only_a_snapshot_its_page_size() -> None:
    snapshot = InputFile(path="a", kind="snapshot", key={"rank": 3}, page_size=16)
    assert snapshot.to_dict() == {
        "path": "a",
        "kind": "snapshot",
        "rank": 3,
        "page_size": 16,
        "notes": [],
    }
    assert "page_size" not in InputFile(path="a", kind="plan").to_dict()


def test_speed_is_in_powers_of_ten_and_0_when_no_time_passed() -> None:
    assert Timing(seconds=0.5, kv_bytes=10**9).gb_per_s == 2.0
    assert Timing(seconds=0.0, kv_bytes=10**9).gb_per_s == 0.0
