from __future__ import annotations

from kvaudit.core.saved_report import SavedReport


def test_a_report_in_short_keeps_verdict_and_coverage() -> None:
    report = SavedReport(
        verdict="violations", exit_code=1, coverage={"records": (3, 4)}, num_violations=2
    )
    assert report.to_dict() == {
        "verdict": "violations",
        "exit_code": 1,
        "coverage": {"records": {"checked": 3, "planned": 4}},
        "violations": 2,
        "incomplete_reasons": [],
    }
