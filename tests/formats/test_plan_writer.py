"""What write_plan leaves on disk."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from kvaudit.errors import SchemaMismatch, ValuesInvalid
from kvaudit.formats.plan_writer import write_plan
from tests.helpers.arrow_files import plan


def test_rows_are_what_any_arrow_reader_sees(tmp_path):
    write_plan(tmp_path / "a.arrow", plan(), metadata={"note": "x"})
    table = pa.ipc.open_file(tmp_path / "a.arrow").read_all()
    assert table.schema.metadata[b"kvaudit.note"] == b"x"
    first, second = table.to_pylist()
    assert first == {
        "step": 7,
        "tags": ["TAIL_K_FULL", "SWEEP_V_SWA"],
        "verify_slot_indices": [4, 5, 6],
        "verify_expected_tokens": [11, 12, -1],
        "verify_expected_positions": [0, 1, 2],
        "verify_prev_slot_indices": [-1, 4, 5],
        "verify_num_valid": 3,
        "enable": 1,
        "check_verify_expected_token": True,
        "verify_request_ids": ["a", "a", "b"],
    }
    assert (second["tags"], second["verify_request_ids"], second["enable"]) == (None, None, 0)


def test_no_launches_are_written_as_an_empty_file(tmp_path):
    write_plan(tmp_path / "a.arrow", plan(launches=[]))
    assert pa.ipc.open_file(tmp_path / "a.arrow").read_all().num_rows == 0


def test_a_name_that_is_no_text_is_refused(tmp_path):
    launches = [plan().launches[0], replace(plan().launches[0], request_ids=["a", 5, "b"])]
    with pytest.raises(ValuesInvalid) as caught:
        write_plan(tmp_path / "a.arrow", plan(launches=launches))
    assert (caught.value.column, caught.value.row) == ("verify_request_ids", 1)
    with pytest.raises(SchemaMismatch):
        write_plan(tmp_path / "a.arrow", plan(), metadata={"a": "\ud800"})
    assert list(tmp_path.iterdir()) == []


def test_a_launch_without_a_step_is_refused(tmp_path):
    launches = [*plan().launches, replace(plan().launches[0], step=None)]
    with pytest.raises(ValuesInvalid) as caught:
        write_plan(tmp_path / "a.arrow", plan(launches=launches))
    assert (caught.value.column, caught.value.row) == ("step", 2)
    assert list(tmp_path.iterdir()) == []
