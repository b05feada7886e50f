"""The report's JSON: the keys others rely on."""

from __future__ import annotations

from kvaudit.core.coverage import Coverage
from kvaudit.core.report import (
    BackendChoice,
    InputFile,
    Report,
    TagCounters,
    Timing,
    Verdict,
)


def test_speed_is_folded_bytes_by_time() -> None:
    assert Timing(seconds=2.0, kv_bytes=4 * 10**9).gb_per_s == 2.0
    assert Timing(seconds=0.0, kv_bytes=1).gb_per_s == 0.0


def test_a_files_key_stands_beside_its_path() -> None:
    file = InputFile(path="a.arrow", kind="snapshot", key={"rank": 3}, page_size=16, notes=("n",))
    assert file.to_dict() == {
        "path": "a.arrow",
        "kind": "snapshot",
        "rank": 3,
        "page_size": 16,
        "notes": ["n"],
    }
    assert "page_size" not in InputFile(path="b.arrow", kind="plan").to_dict()


def test_the_document_has_every_key() -> None:
    counters = TagCounters(tag="TAIL_K_FULL", kernel_runs=1, slots_run=8, checked=7, violations=0)
    report = Report(
        verdict=Verdict.CLEAN,
        exit_code=0,
        inputs=(),
        backend=BackendChoice(name="cpu", device="CPU", reason="asked for by name"),
        self_check="passed",
        coverage=Coverage(),
        tags=(counters,),
        timing=Timing(seconds=1.0, kv_bytes=0),
    )
    document = report.to_dict()
    assert {
        "schema", "verdict", "exit_code", "inputs", "backend", "self_check", "coverage", "tags",
        "violations", "findings", "timing",
    } <= set(document)  # fmt: skip
    assert document["schema"] == "kvaudit.report/1"
    assert document["tags"] == [
        {"tag": "TAIL_K_FULL", "kernel_runs": 1, "slots_run": 8, "checked": 7, "violations": 0}
    ]
    assert document["violations"] == {"total": 0, "shown": 0, "rows": []}
