"""Sequences files: defaults, ranges, and what is left for the audit to judge."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.core.sequences import SequenceState
from kvaudit.errors import FileCorrupt, SchemaMismatch, ValuesInvalid
from kvaudit.formats.reader import read_file, read_with_notes
from kvaudit.formats.sequences_writer import write_sequences
from tests.helpers.arrow_files import KEY, sequences, sequences_columns, write_by_hand

ARRAYS = (
    "token_offsets",
    "tokens",
    "slot_offsets",
    "slots",
    "kv_lens",
    "start_positions",
    "prompt_lens",
)


def read_by_hand(tmp_path, **columns):
    path = write_by_hand(tmp_path / "a.arrow", "sequences", sequences_columns(**columns))
    return read_file(path)


def test_every_column_comes_back(tmp_path):
    wanted = sequences(key=KEY)
    write_sequences(tmp_path / "a.arrow", wanted, metadata={"engine": "toy"})
    read = read_with_notes(tmp_path / "a.arrow")
    found = read.content
    for name in ARRAYS:
        values = getattr(found, name)
        np.testing.assert_array_equal(values, getattr(wanted, name))
        assert values.dtype == np.int64
    for name in ("request_ids", "states", "extra_keys", "key"):
        assert getattr(found, name) == getattr(wanted, name)
    assert read.input_file.notes == []
    assert (read.input_file.kind, read.input_file.key["rank"]) == ("sequences", 3)


def test_defaults_leave_out_the_last_sampled_token(tmp_path):
    found = read_by_hand(
        tmp_path,
        tokens=pa.array([[1, 2, 3], [1, 2, 3], [1] * 9, []], pa.list_(pa.int64())),
        slots=pa.array([[5, 6], [5, 6, 7, 8], [5, 6], []], pa.list_(pa.int64())),
        start_position=pa.array([0, 0, 4, 0]),
        request_id=pa.array(["a", "b", "c", "d"]),
    )
    assert found.kv_lens.tolist() == [2, 3, 6, 0]
    assert found.prompt_lens.tolist() == [-1] * 4
    assert found.states == [None] * 4
    assert found.extra_keys == [None] * 4


def test_start_positions_default_to_zero(tmp_path):
    assert read_by_hand(tmp_path).start_positions.tolist() == [0, 0]


def test_states_are_read_and_may_be_null(tmp_path):
    found = read_by_hand(tmp_path, state=pa.array(["in_flight", None]))
    assert found.states == [SequenceState.IN_FLIGHT, None]


@pytest.mark.parametrize(
    "variant", [pa.large_list(pa.int64()), pa.list_view(pa.int64()), pa.large_list_view(pa.int64())]
)
def test_lists_and_texts_may_be_any_variant(tmp_path, variant):
    found = read_by_hand(
        tmp_path,
        tokens=pa.array([[11, 12], [21, 22, 23]], variant),
        request_id=pa.array(["a", "b"]).dictionary_encode(),
        extra_key=pa.array(["lora", None], pa.string_view()),
    )
    assert found.tokens_of(1).tolist() == [21, 22, 23]
    assert found.request_ids == ["a", "b"]
    assert found.extra_keys == ["lora", None]


def test_several_batches_are_joined(tmp_path):
    path = tmp_path / "a.arrow"
    batch = pa.record_batch(sequences_columns())
    schema = batch.schema.with_metadata({"kvaudit.kind": "sequences", "kvaudit.format": "1"})
    with pa.ipc.new_file(str(path), schema) as writer:
        for _ in range(3):
            writer.write_batch(batch.cast(schema))
    found = read_file(path)
    assert found.request_ids == ["a", "b"] * 3
    assert found.token_offsets.tolist() == [0, 2, 5, 7, 10, 12, 15]
    assert found.slots_of(5).tolist() == [5, 6]
    assert found.kv_lens.tolist() == [1, 2] * 3


def test_no_sequences_at_all_are_legal(tmp_path):
    found = read_by_hand(
        tmp_path,
        request_id=pa.array([], pa.string()),
        tokens=pa.array([], pa.list_(pa.int64())),
        slots=pa.array([], pa.list_(pa.int64())),
    )
    assert found.num_sequences == 0
    assert found.token_offsets.tolist() == [0]


def test_what_the_audit_judges_is_not_refused(tmp_path):
    found = read_by_hand(
        tmp_path,
        slots=pa.array([[-7], [1 << 62, 6]], pa.list_(pa.int64())),
        kv_len=pa.array([99, 0]),
    )
    assert found.slots.tolist() == [-7, 1 << 62, 6]
    assert found.kv_lens.tolist() == [99, 0]


@pytest.mark.parametrize(
    ("column", "array", "row"),
    [
        ("tokens", pa.array([[1], [2, -2]], pa.list_(pa.int64())), 1),
        ("kv_len", pa.array([1, -1]), 1),
        ("kv_len", pa.array([1 << 60, 1]), 0),
        ("start_position", pa.array([-1, 0]), 0),
        ("start_position", pa.array([0, 2**63 - 1]), 1),
        ("prompt_len", pa.array([0, -2]), 1),
        ("state", pa.array(["running", "gone"]), 1),
        ("request_id", pa.array(["a", None]), 1),
        ("tokens", pa.array([[1], None], pa.list_(pa.int64())), 1),
        ("tokens", pa.array([[1], [2, None]], pa.list_(pa.int64())), 1),
        ("slots", pa.array([[None], [2, 3]], pa.list_view(pa.int64())), 0),
        ("kv_len", pa.array([None, 1]), 0),
    ],
)
def test_values_outside_their_range_are_refused_with_their_row(tmp_path, column, array, row):
    with pytest.raises(ValuesInvalid) as caught:
        read_by_hand(tmp_path, **{column: array})
    assert (caught.value.column, caught.value.row) == (column, row)
    assert caught.value.path == str(tmp_path / "a.arrow")


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("request_id", None),
        ("tokens", None),
        ("slots", None),
        ("request_id", pa.array([1, 2])),
        ("tokens", pa.array([[1], [2]], pa.list_(pa.int32()))),
        ("tokens", pa.array([1, 2])),
        ("slots", pa.array([[1], [2]], pa.list_(pa.int64(), 1))),
        ("kv_len", pa.array([1, 2], pa.int32())),
    ],
)
def test_a_column_missing_or_of_another_type_is_refused(tmp_path, column, array):
    with pytest.raises(SchemaMismatch) as caught:
        read_by_hand(tmp_path, **{column: array})
    assert caught.value.column == column
    assert caught.value.hint


def test_a_flipped_token_is_a_corrupt_file_and_no_violation(tmp_path):
    path = tmp_path / "a.arrow"
    wanted = sequences()
    write_sequences(path, wanted)
    raw = bytearray(path.read_bytes())
    raw[raw.index(wanted.tokens.tobytes())] ^= 1
    path.write_bytes(raw)
    with pytest.raises(FileCorrupt) as caught:
        read_file(path)
    assert caught.value.column == "tokens"
