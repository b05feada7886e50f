"""Nulls are refused with their row; digests must be as many as the chunks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.errors import FileCorrupt, SchemaMismatch, ValuesInvalid
from kvaudit.formats.column_checks import check_chunk_count, refuse_nulls
from kvaudit.formats.columns import ColumnBatch
from kvaudit.formats.digests import CHUNK_BYTES
from kvaudit.formats.file_bytes import FileBytes

SOURCE = FileBytes(path="a.arrow", buffer=pa.py_buffer(b""), mapping=None)
INT64_LIST = pa.list_(pa.int64())


@pytest.mark.parametrize(
    ("array", "row"),
    [
        (pa.array([1, None, 3]), 1),
        (pa.array([None, "a"]), 0),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), 1),
        (pa.array([[1, 2], [3, None]], pa.list_(pa.int64(), 2)), 1),
        (pa.array([[1], [], [2, None]], INT64_LIST), 2),
        (pa.array([[1], [], [None]], pa.large_list_view(pa.int64())), 2),
    ],
)
def test_the_first_null_is_named_by_its_row_in_the_file(array, row):
    with pytest.raises(ValuesInvalid) as caught:
        refuse_nulls("a.arrow", "c", array, first_row=100, whole_rows=True)
    assert (caught.value.path, caught.value.column, caught.value.row) == ("a.arrow", "c", 100 + row)
    assert caught.value.hint


def test_rows_may_be_null_where_the_format_says_so_but_values_in_lists_may_not():
    refuse_nulls("a.arrow", "c", pa.array(["a", None]), first_row=0, whole_rows=False)
    refuse_nulls(
        "a.arrow",
        "c",
        pa.array([["a"], None], pa.list_(pa.string())),
        first_row=0,
        whole_rows=False,
    )
    with pytest.raises(ValuesInvalid) as caught:
        refuse_nulls("a", "c", pa.array([None, ["a", None]]), first_row=0, whole_rows=False)
    assert caught.value.row == 1


def test_a_null_outside_the_slice_does_not_count():
    refuse_nulls("a", "c", pa.array([None, 1, 2])[1:], first_row=0, whole_rows=True)
    refuse_nulls("a", "c", pa.array([[None], [1]], INT64_LIST)[1:], first_row=0, whole_rows=True)


def kv_array(num_bytes):
    content = pa.py_buffer(np.zeros(num_bytes, dtype=np.uint8))
    return pa.Array.from_buffers(pa.binary(1), num_bytes, [None, content])


@pytest.mark.parametrize(
    ("num_bytes", "chunks"), [(0, 0), (1, 1), (CHUNK_BYTES, 1), (CHUNK_BYTES + 1, 2)]
)
def test_kv_bytes_have_one_digest_a_chunk(num_bytes, chunks):
    right = ColumnBatch(array=kv_array(num_bytes), digests=["0" * 16] * chunks)
    check_chunk_count(SOURCE, "kv.k.0", right, checksummed=True)
    wrong = ColumnBatch(array=right.array, digests=["0" * 16] * (chunks + 1))
    with pytest.raises(FileCorrupt):
        check_chunk_count(SOURCE, "kv.k.0", wrong, checksummed=True)
    check_chunk_count(SOURCE, "kv.k.0", wrong, checksummed=False)


def test_a_type_without_digests_may_not_stand_in_a_file_with_them():
    column = ColumnBatch(array=pa.array(["a"]).dictionary_encode(), digests=[])
    with pytest.raises(SchemaMismatch) as caught:
        check_chunk_count(SOURCE, "request_id", column, checksummed=True)
    assert caught.value.column == "request_id"
