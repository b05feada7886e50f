"""What write_sequences leaves on disk."""

from __future__ import annotations

import stat

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.errors import SchemaMismatch, ValuesInvalid
from kvaudit.formats.sequences_writer import write_sequences
from tests.helpers.arrow_files import KEY, int64, sequences


def test_columns_that_nobody_gave_are_left_out(tmp_path):
    write_sequences(tmp_path / "a.arrow", sequences(states=[None, None], extra_keys=[None, None]))
    names = pa.ipc.open_file(tmp_path / "a.arrow").schema.names
    assert names == ["request_id", "tokens", "slots", "kv_len", "start_position", "prompt_len"]


def test_the_key_and_further_metadata_are_written(tmp_path):
    write_sequences(tmp_path / "a.arrow", sequences(key=KEY), metadata={"note": "x"})
    metadata = pa.ipc.open_file(tmp_path / "a.arrow").schema.metadata
    assert metadata[b"kvaudit.instance"] == b"decode-0"
    assert metadata[b"kvaudit.rank"] == b"3"
    assert metadata[b"kvaudit.note"] == b"x"
    assert stat.S_IMODE((tmp_path / "a.arrow").stat().st_mode) == 0o600


def test_rows_are_what_any_arrow_reader_sees(tmp_path):
    write_sequences(tmp_path / "a.arrow", sequences())
    rows = pa.ipc.open_file(tmp_path / "a.arrow").read_all().to_pylist()
    assert rows[1] == {
        "request_id": "b",
        "tokens": [21, -1, 23],
        "slots": [5, 6],
        "kv_len": 2,
        "start_position": 0,
        "prompt_len": 2,
        "state": "running",
        "extra_key": None,
    }


@pytest.mark.parametrize(
    ("part", "column", "value"),
    [
        ("kv_lens", "kv_len", int64(1)),
        ("token_offsets", "tokens", int64(0, 5)),
        ("states", "state", ["running"]),
    ],
)
def test_parts_of_another_length_are_refused(tmp_path, part, column, value):
    with pytest.raises(ValuesInvalid) as caught:
        write_sequences(tmp_path / "a.arrow", sequences(**{part: value}))
    assert caught.value.column == column
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("part", "column", "value"),
    [
        ("request_ids", "request_id", ["a", "\ud800"]),
        ("extra_keys", "extra_key", [None, 5]),
        ("kv_lens", "kv_len", np.array([1.0, 2.0])),
        ("tokens", "tokens", np.array([1.5] * 5)),
    ],
)
def test_values_that_are_none_of_their_column_are_refused(tmp_path, part, column, value):
    with pytest.raises(ValuesInvalid) as caught:
        write_sequences(tmp_path / "a.arrow", sequences(**{part: value}))
    assert caught.value.column == column
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_is_no_text_is_refused(tmp_path):
    with pytest.raises(SchemaMismatch):
        write_sequences(tmp_path / "a.arrow", sequences(), metadata={"a": 5})
    assert list(tmp_path.iterdir()) == []


def test_no_sequences_are_written_as_an_empty_file(tmp_path):
    empty = np.zeros(0, dtype=np.int64)
    write_sequences(
        tmp_path / "a.arrow",
        sequences(
            request_ids=[],
            token_offsets=int64(0),
            tokens=empty,
            slot_offsets=int64(0),
            slots=empty,
            kv_lens=empty,
            start_positions=empty,
            prompt_lens=empty,
            states=[],
            extra_keys=[],
        ),
    )
    assert pa.ipc.open_file(tmp_path / "a.arrow").read_all().num_rows == 0
