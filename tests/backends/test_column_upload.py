"""Shipments through buffers; runs in the simulator's process of test_cuda.py, without kernels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvaudit.backends import column_upload
from kvaudit.backends.column_upload import ColumnUpload, Load
from kvaudit.backends.cuda_staging import Staging
from kvaudit.backends.fold_lane import FoldLane
from kvaudit.backends.shipments import shipments
from kvaudit.core.kv_column import KvColumn
from kvaudit.errors import FileCorrupt
from kvaudit.kernels import row_threads
from kvaudit.kernels.cuda_module import SIMULATED, cuda
from kvaudit.kernels.row_threads import drain
from tests.helpers.digested_columns import digested_column
from tests.helpers.kv_columns import WindowedColumn, random_column

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]

BUFFER_BYTES = 4096


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_upload, "PIECE_BYTES", 640)


def uploaded(column: KvColumn, rows: np.ndarray, staging: Staging) -> dict[int, list[int]]:
    """The bytes that reached the device, by row of the snapshot."""
    lane, arrived, orders = FoldLane(), dict[int, list[int]](), list[tuple[int, int]]()
    lane.begin(column.num_rows)

    def send(load: Load) -> None:
        shipment = load.shipment
        load.buffer.upload(shipment.content.size, stream=lane.stream)
        found = load.buffer.rows(shipment.first_byte, shipment.num_rows, column.row_bytes)
        for row, content in enumerate(found.copy_to_host().tolist(), shipment.first_row):
            arrived[row] = content
        num_digests = 0 if load.digests is None else len(load.digests)
        assert num_digests == len(shipment.device_chunks)
        orders.append((load.first_row, shipment.num_rows))
        load.buffer.record_use(lane.stream)

    upload = ColumnUpload(
        shipments(column, rows, max_bytes=staging.buffer_bytes),
        lane=lane,
        staging=staging,
        send=send,
        on_device=nullcontext,
    )
    try:
        drain(upload.pieces(), upload.fill)
    finally:
        upload.close()
    firsts = np.cumsum([0, *(each.num_rows for each in upload.sent)]).tolist()
    assert sorted(orders) == list(zip(firsts, (s.num_rows for s in upload.sent), strict=False))
    assert upload.num_rows == firsts[-1] == len(arrived)
    return arrived


@settings(max_examples=30, deadline=None)
@given(num_rows=st.integers(1, 80), row_bytes=st.integers(1, 900), data=st.data())
def test_wanted_rows_arrive_whole(num_rows: int, row_bytes: int, data: st.DataObject) -> None:
    column = digested_column(num_rows=num_rows, row_bytes=row_bytes)
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, num_rows - 1)))), dtype=np.int64)
    arrived = uploaded(column, rows, Staging(buffer_bytes=BUFFER_BYTES, num_buffers=2))
    for row in rows.tolist():
        assert arrived[row] == column.data[row].tolist()


@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_the_first_corrupt_window_is_raised_and_every_buffer_returns(
    monkeypatch: pytest.MonkeyPatch, num_threads: int
) -> None:
    monkeypatch.setattr(row_threads, "num_threads", lambda: num_threads)
    staging = Staging(buffer_bytes=BUFFER_BYTES, num_buffers=3)
    sound = random_column(num_rows=60, row_bytes=16, read_bytes=16, window_rows=2)
    rows = np.arange(60)

    class AllCorrupt(WindowedColumn):
        def _check(self, first_row: int) -> None:
            raise FileCorrupt("the digest differs", column=f"at {first_row}")

    for _ in range(20):
        corrupt = AllCorrupt(data=sound.data, read_bytes=16, window_rows=2)
        with pytest.raises(FileCorrupt) as failure:
            uploaded(corrupt, rows, staging)
        assert failure.value.column == "at 0"
    arrived = uploaded(sound, rows, staging)
    assert [arrived[row] for row in range(60)] == sound.data.tolist()


def test_two_columns_at_once_share_the_buffers() -> None:
    staging = Staging(buffer_bytes=BUFFER_BYTES, num_buffers=3)
    columns = [digested_column(num_rows=90, row_bytes=160, seed=seed) for seed in range(6)]
    with ThreadPoolExecutor(2) as callers:
        futures = [callers.submit(uploaded, each, np.arange(90), staging) for each in columns]
        for future, column in zip(futures, columns, strict=True):
            arrived = future.result()
            assert [arrived[row] for row in range(90)] == column.data.tolist()
