"""The JSON document: the keys that others rely on, and nothing that breaks a stream."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest

from kvaudit.render.json import write_json
from tests.helpers import reports


def document(report) -> dict[str, Any]:
    stream = io.StringIO()
    write_json(report, stream)
    return json.loads(stream.getvalue())


@pytest.mark.parametrize("name", reports.ALL)
def test_json_is_the_report_itself(name: str) -> None:
    report = reports.ALL[name]
    assert document(report) == json.loads(json.dumps(report.to_dict()))


def test_json_has_the_keys_that_others_rely_on() -> None:
    found = document(reports.VIOLATIONS)
    assert found["schema"] == "kvaudit.report/1"
    assert found["verdict"] == "violations"
    assert found["exit_code"] == 1
    assert found["inputs"][0]["path"] == "step-000120/target.snapshot.arrow"
    assert found["backend"] == {
        "name": "cpu",
        "device": "8 threads",
        "reason": "no CUDA device",
        "device_bytes": 0,
    }
    assert found["self_check"] == "passed"
    assert found["coverage"]["records"]["planned"] == 20001
    assert found["coverage"]["records"]["not_in_snapshot"] == 1
    assert found["coverage"]["identity"] is None
    assert found["coverage"]["disabled_launches"] == 1
    assert found["coverage"]["slots"] == {"pool": 4096, "planned": 1024, "checked": 1024}
    assert found["tags"][0]["kernel_runs"] == 1
    assert (found["violations"]["total"], found["violations"]["shown"]) == (7, 4)
    assert found["timing"] == {"seconds": 0.5, "kv_bytes": 1_000_000_000, "gb_per_s": 2.0}


def test_json_rows_write_hashes_as_text_and_reasons_as_words() -> None:
    row = document(reports.VIOLATIONS)["violations"]["rows"][0]
    assert row["tag"] == "TAIL_K_FULL"
    assert row["expected_chain_hash"] == "0x13f5baafe6ef85d6"
    assert row["reasons"] == ["verify_chain_hash", "verify_position", "verify_token"]


def test_json_is_ascii_and_one_document() -> None:
    row = replace(reports.VIOLATIONS.violations[0], request_ids=("é\udcff\x1b",))
    stream = io.StringIO()
    write_json(replace(reports.VIOLATIONS, violations=(row,)), stream)
    assert stream.getvalue().isascii()
    assert json.loads(stream.getvalue())["violations"]["rows"][0]["request_ids"] == ["é\udcff\x1b"]


def test_json_refuses_numbers_that_are_none() -> None:
    broken = replace(reports.CLEAN, timing=replace(reports.CLEAN.timing, seconds=float("nan")))
    with pytest.raises(ValueError, match="JSON"):
        write_json(broken, io.StringIO())
