"""What write_state leaves on disk."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.errors import FileUnwritable, ValuesInvalid
from kvaudit.formats.schema import RING_COLUMNS
from kvaudit.formats.state_writer import write_state
from tests.helpers.arrow_files import canary_state


def test_the_ring_is_a_row_a_violation_and_counters_are_json_by_tag(tmp_path):
    write_state(tmp_path / "a.arrow", canary_state(), metadata={"engine": "toy"})
    table = pa.ipc.open_file(tmp_path / "a.arrow").read_all()
    assert table.column_names == list(RING_COLUMNS)
    assert [list(row.values()) for row in table.to_pylist()] == canary_state().ring.tolist()
    metadata = {
        key.decode().removeprefix("kvaudit."): value.decode()
        for key, value in table.schema.metadata.items()
    }
    assert (metadata["kind"], metadata["engine"]) == ("state", "toy")
    assert (metadata["violation_write_index"], metadata["ring_capacity"]) == ("3", "2")
    assert json.loads(metadata["kernel_run_counters"]) == {"TAIL_K_FULL": 300, "SWEEP_K_SWA": 4}
    assert json.loads(metadata["slot_run_counters"]) == {"TAIL_K_FULL": 4800}
    assert json.loads(metadata["active_tags"]) == ["TAIL_K_FULL", "TAIL_V_FULL"]
    assert json.loads(metadata["sweep_passes"]) == {"SWEEP_K_SWA": 1}


def test_numbers_of_numpy_are_numbers(tmp_path):
    counts = {tag: np.int64(count) for tag, count in canary_state().kernel_run_counters.items()}
    write_state(tmp_path / "a.arrow", canary_state(kernel_run_counters=counts))
    metadata = pa.ipc.open_file(tmp_path / "a.arrow").schema.metadata
    assert b"300" in metadata[b"kvaudit.kernel_run_counters"]


def test_a_ring_of_no_whole_numbers_is_refused(tmp_path):
    with pytest.raises(ValuesInvalid):
        write_state(tmp_path / "a.arrow", canary_state(ring=np.zeros((2, 8))))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileUnwritable):
        write_state(tmp_path / "none" / "a.arrow", canary_state())
