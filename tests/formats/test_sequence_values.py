"""Readers and writers refuse the same tokens and lengths."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvaudit.errors import ValuesInvalid
from kvaudit.formats.reader import read_file
from kvaudit.formats.schema import LENGTH_BOUNDS
from kvaudit.formats.sequence_values import check_lengths, check_tokens
from kvaudit.formats.sequences_writer import write_sequences
from tests.helpers.arrow_files import int64, sequences, sequences_columns, write_by_hand

PARTS = {"kv_len": "kv_lens", "start_position": "start_positions", "prompt_len": "prompt_lens"}


def test_a_token_below_unknown_is_refused_in_its_row():
    check_tokens(int64(0, 2, 2, 3), int64(5, -1, 0), path="a")
    with pytest.raises(ValuesInvalid) as caught:
        check_tokens(int64(0, 2, 2, 3), int64(5, -1, -2), path="a")
    error = caught.value
    assert (error.path, error.column, error.row) == ("a", "tokens", 2)


@pytest.mark.parametrize("name", sorted(LENGTH_BOUNDS))
def test_a_length_out_of_its_bounds_is_refused_in_its_row(name):
    least, most = LENGTH_BOUNDS[name]
    check_lengths(name, int64(least, most), path="a")
    for bad in (least - 1, most + 1):
        with pytest.raises(ValuesInvalid) as caught:
            check_lengths(name, int64(least, bad), path="a")
        assert (caught.value.path, caught.value.column, caught.value.row) == ("a", name, 1)


@pytest.mark.parametrize("name", sorted(LENGTH_BOUNDS))
def test_what_a_reader_refuses_is_not_written(tmp_path, name):
    bad = int64(0, LENGTH_BOUNDS[name][0] - 1)
    by_hand = sequences_columns(**{name: pa.array(bad)})
    with pytest.raises(ValuesInvalid) as read:
        read_file(write_by_hand(tmp_path / "read.arrow", "sequences", by_hand))
    with pytest.raises(ValuesInvalid) as written:
        write_sequences(tmp_path / "written.arrow", sequences(**{PARTS[name]: bad}))
    assert written.value.message == read.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["read.arrow"]


def test_a_token_that_a_reader_refuses_is_not_written(tmp_path):
    with pytest.raises(ValuesInvalid, match="tokens, row 1"):
        write_sequences(tmp_path / "a.arrow", sequences(tokens=int64(11, 12, 21, -2, 23)))
    assert list(tmp_path.iterdir()) == []
