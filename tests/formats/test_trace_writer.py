"""A trace appears whole when its run has ended, or not at all."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.constants import LaunchTag
from kvaudit.core.plan import PlannedWrite, WritePlan
from kvaudit.core.recorded_step import RecordedBatch, RecordedStep
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import FileUnwritable, SchemaMismatch, ValuesInvalid
from kvaudit.formats import trace_writer
from kvaudit.formats.reader import read_with_notes
from kvaudit.formats.trace_reader import open_trace
from kvaudit.formats.trace_writer import TraceWriter
from tests.helpers.arrow_files import KEY, planned_write, recorded_steps, write_trace


def test_nothing_is_seen_before_it_is_closed(tmp_path):
    writer = TraceWriter(tmp_path / "a.arrow", key=PoolKey(), metadata={"note": "x"})
    for recorded in recorded_steps():
        writer.append(recorded)
        assert list(tmp_path.iterdir()) == []
    writer.close()
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    table = pa.ipc.open_file(path).read_all()
    assert table.schema.metadata[b"kvaudit.note"] == b"x"
    assert table["step"].to_pylist() == [4, 4, 5, 9]
    assert table["out_cache_loc"].to_pylist() == [[7, -1, 9], None, [7, -1, 9], None]
    assert table["table_slots"].to_pylist() == [[4, 5, 6, -1], None, None, None]
    assert table["tags"].to_pylist()[1:] == [None, ["TAIL_K_FULL", "TAIL_V_FULL"], []]


def test_the_key_loses_its_step_and_the_file_has_digests(tmp_path):
    write_trace(tmp_path / "a.arrow", recorded_steps(), key=KEY)
    found = read_with_notes(tmp_path / "a.arrow").input_file
    assert "step" not in found.key
    assert found.key["rank"] == KEY.rank
    assert found.notes == ["3 rows of a trace say what was written, and not what was checked"]


@pytest.mark.parametrize("limit", ["MAX_BATCH_STEPS", "MAX_BATCH_VALUES"])
def test_steps_are_let_go_of_in_batches(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(trace_writer, limit, 2)
    path = write_trace(tmp_path / "a.arrow", [recorded_steps()[2]] * 6)
    num_batches = pa.ipc.open_file(path).num_record_batches
    assert num_batches == (3 if limit == "MAX_BATCH_STEPS" else 6)
    assert open_trace(path).extent.num_rows == 6


def decode_steps(num_steps: int, num_requests: int = 64) -> Iterator[RecordedStep]:
    """Requests of 256 positions and more, one token a step each, with names of a usual length."""
    rows = np.arange(1, num_requests + 1)
    names = [f"cmpl-{row:032x}" for row in rows.tolist()]
    for step in range(num_steps):
        ends = np.full(num_requests, 256 + step)
        yield RecordedStep(
            step=step,
            tags=(LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL),
            batch=RecordedBatch(
                request_index=rows, prefix_lens=ends, extend_seq_lens=np.ones_like(ends)
            ),
            write=PlannedWrite(
                plan=WritePlan(
                    write_offsets=np.arange(num_requests + 1),
                    write_seed_slot_indices=rows * 4096 + ends - 1,
                    num_valid_reqs=num_requests,
                ),
                input_ids=ends % 997,
                positions=ends,
                out_cache_loc=rows * 4096 + ends,
                request_ids=names,
            ),
        )


def test_ten_thousand_steps_of_64_requests_would_take_less_than_100_mb(tmp_path):
    path = write_trace(tmp_path / "a.arrow", decode_steps(1000))
    assert Path(path).stat().st_size < 100e6 / 10


def test_a_walk_needs_no_more_memory_the_longer_the_trace(tmp_path):
    peaks = []
    for num_steps in (1024, 4096):
        trace = open_trace(write_trace(tmp_path / "a.arrow", decode_steps(num_steps)))
        tracemalloc.start()
        try:
            assert sum(recorded.step >= 0 for recorded in trace.steps()) == num_steps
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_an_abandoned_trace_leaves_nothing_and_an_older_one_as_it_was(tmp_path):
    path = tmp_path / "a.arrow"
    write_trace(path, recorded_steps())
    before = path.read_bytes()
    writer = TraceWriter(path, key=PoolKey())
    writer.append(RecordedStep(step=1))
    writer.abandon()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_a_process_that_is_killed_leaves_nothing(tmp_path):
    code = f"""
import os, signal
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.core.snapshot import PoolKey
from kvaudit.formats.trace_writer import TraceWriter
writer = TraceWriter({str(tmp_path / "a.arrow")!r}, key=PoolKey())
for step in range(3000):
    writer.append(RecordedStep(step=step))
os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, check=False)
    assert done.returncode == -9
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error_with_a_hint(tmp_path):
    with pytest.raises(FileUnwritable) as caught:
        TraceWriter(tmp_path / "none" / "a.arrow", key=PoolKey())
    assert caught.value.path == str(tmp_path / "none" / "a.arrow")
    assert caught.value.hint


def test_what_no_reader_takes_is_refused_with_its_row(tmp_path, monkeypatch):
    with pytest.raises(SchemaMismatch):
        TraceWriter(tmp_path / "a.arrow", key=PoolKey(), metadata={"a": "\ud800"})
    monkeypatch.setattr(trace_writer, "MAX_BATCH_STEPS", 1)
    step = recorded_steps()[2]
    named = replace(step, write=planned_write(request_ids=["a", 5]))
    writer = TraceWriter(tmp_path / "a.arrow", key=PoolKey())
    writer.append(step)
    with pytest.raises(ValuesInvalid) as caught:
        writer.append(named)
    assert (caught.value.column, caught.value.row) == ("write_request_ids", 1)
    writer.abandon()
    assert list(tmp_path.iterdir()) == []
