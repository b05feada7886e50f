"""Arrays over numpy memory, and files that any Arrow reader opens."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import SchemaMismatch, ValuesInvalid
from kvaudit.formats import arrow_writer
from kvaudit.formats.arrow_writer import (
    fixed_width_array,
    integers,
    list_array,
    text_array,
    text_list_array,
    write_arrow,
    write_columns,
)
from kvaudit.formats.limits import MAX_POSITION, MAX_STRING_BYTES
from kvaudit.formats.schema import RECORD, FileKind


@pytest.mark.parametrize(
    ("values", "arrow_type", "rows"),
    [
        (np.array([1, -2]), pa.int64(), [1, -2]),
        (np.array([1, 2], dtype=np.int32), pa.int32(), [1, 2]),
        (np.frombuffer(b"abcdef", dtype=np.uint8).reshape(2, 3), pa.binary(3), [b"abc", b"def"]),
        (np.arange(8).reshape(2, 4), RECORD, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (np.arange(10)[::2], pa.int64(), [0, 2, 4, 6, 8]),
        (np.zeros((0, 4), dtype=np.int64), RECORD, []),
        (np.zeros((0, 3), dtype=np.uint8), pa.binary(3), []),
    ],
)
def test_an_array_holds_the_values(values, arrow_type, rows):
    array = fixed_width_array(values, arrow_type)
    array.validate(full=True)
    assert array.type == arrow_type
    assert array.to_pylist() == rows


def test_contiguous_values_are_not_copied():
    values = np.arange(10)
    assert fixed_width_array(values, pa.int64()).buffers()[1].address == values.ctypes.data


@pytest.mark.parametrize("most", [None, 3])
def test_lists_past_int32_become_large_lists(monkeypatch, most):
    if most is not None:
        monkeypatch.setattr(arrow_writer, "MAX_SMALL_LIST_VALUES", most)
    array = list_array(np.array([0, 1, 1, 5]), np.arange(5))
    array.validate(full=True)
    assert array.to_pylist() == [[0], [], [1, 2, 3, 4]]
    assert pa.types.is_large_list(array.type) is (most is not None)


def test_a_file_of_several_batches_is_plain_arrow(tmp_path):
    path = tmp_path / "a.arrow"
    write_arrow(
        path,
        kind=FileKind.PLAN,
        fields=[pa.field("step", pa.int64())],
        key=PoolKey(),
        metadata={"note": "x"},
        num_rows=3,
        batches=[[pa.array([1, 2])], [pa.array([3])]],
    )
    reader = pa.ipc.open_file(path)
    assert reader.num_record_batches == 2
    assert reader.read_all()["step"].to_pylist() == [1, 2, 3]
    assert reader.schema.metadata[b"kvaudit.kind"] == b"plan"
    assert reader.schema.metadata[b"kvaudit.note"] == b"x"
    assert reader.schema.metadata[b"kvaudit.pool_kind"] == b"FULL"


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in ("a.arrow", "b.arrow"):
        write_arrow(
            tmp_path / name,
            kind=FileKind.PLAN,
            fields=[pa.field("step", pa.int64())],
            key=PoolKey(),
            metadata={"b": "2", "a": "1"},
            num_rows=1,
            batches=[[pa.array([1])]],
        )
    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()


NO_TEXTS = [5, b"a", "\ud800", "é" * (MAX_STRING_BYTES // 2 + 1)]


@pytest.mark.parametrize("bad", NO_TEXTS, ids=lambda text: ascii(text)[:8])
def test_what_no_reader_takes_for_text_is_refused_by_column_and_row(bad):
    for build, row in (
        (lambda: text_array("a", ["x", None, bad], first_row=7), 9),
        (lambda: text_list_array("a", [["x"], None, ["x", bad]]), 2),
    ):
        with pytest.raises(ValuesInvalid) as caught:
            build()
        assert (caught.value.column, caught.value.row) == ("a", row)
        assert caught.value.hint


def test_text_up_to_the_limit_is_stored():
    texts = ["", None, "ü", "x" * MAX_STRING_BYTES]
    assert text_array("a", texts).to_pylist() == texts
    assert text_list_array("a", [texts[2:], None, []]).to_pylist() == [texts[2:], None, []]


def test_numbers_are_widened_and_never_rounded():
    assert integers("a", np.array([1, 2], dtype=np.int32)).dtype == np.int64
    for values in (np.array([1.0]), np.array([1], dtype=np.uint64), np.array(["1"])):
        with pytest.raises(ValuesInvalid) as caught:
            integers("a", values)
        assert caught.value.column == "a"


@pytest.mark.parametrize(
    ("key", "metadata"),
    [
        (PoolKey(), {"a": 5}),
        (PoolKey(), {"a": "\ud800"}),
        (PoolKey(), {"\ud800": "a"}),
        (PoolKey(), {5: "a"}),
        (PoolKey(instance="\ud800"), {}),
        (PoolKey(rank=-1), {}),
        (PoolKey(step=MAX_POSITION + 1), {}),
        (PoolKey(), {"window": "none"}),
    ],
)
def test_metadata_that_no_reader_takes_is_not_written(tmp_path, key, metadata):
    with pytest.raises(SchemaMismatch) as caught:
        write_columns(
            tmp_path / "a.arrow",
            kind=FileKind.PLAN,
            key=key,
            metadata=metadata,
            columns={"step": pa.array([1])},
            nullable=(),
        )
    assert caught.value.path == str(tmp_path / "a.arrow")
    str(caught.value).encode()
    assert list(tmp_path.iterdir()) == []
