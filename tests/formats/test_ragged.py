"""Text and lists come out alike whatever variant holds them, and cannot blow up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.errors import LimitExceeded
from kvaudit.formats import ragged
from kvaudit.formats.ragged import lengths, list_parts, list_row, strings

LISTS = [[1, 2], [], [3], [4, 5, 6]]
LIST_TYPES = [
    pa.list_(pa.int64()),
    pa.large_list(pa.int64()),
    pa.list_view(pa.int64()),
    pa.large_list_view(pa.int64()),
]
TEXTS = ["a", "", "é", "a longer text than a view keeps inline"]
TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view()]


@pytest.mark.parametrize("arrow_type", LIST_TYPES, ids=str)
@pytest.mark.parametrize("rows", [slice(0, 4), slice(1, 3), slice(3, 4), slice(2, 2)])
def test_lists_of_every_variant_are_offsets_and_values(arrow_type, rows):
    array = pa.array(LISTS, arrow_type)[rows]
    wanted = LISTS[rows]
    offsets, values = list_parts(array, path="a", column="tokens")
    assert offsets.tolist() == [0, *np.cumsum([len(row) for row in wanted], dtype=int)]
    assert values.to_pylist() == [value for row in wanted for value in row]


@pytest.mark.parametrize("arrow_type", LIST_TYPES, ids=str)
def test_a_null_list_is_empty(arrow_type):
    array = pa.array([[1], None, [2, 3]], arrow_type)
    offsets, values = list_parts(array, path="a", column="tokens")
    assert offsets.tolist() == [0, 1, 1, 3]
    assert values.to_pylist() == [1, 2, 3]


def test_a_plain_list_is_not_copied():
    array = pa.array(LISTS, LIST_TYPES[0])
    _, values = list_parts(array, path="a", column="tokens")
    assert values.buffers()[1].address == array.values.buffers()[1].address


def test_views_that_repeat_the_same_values_are_refused_before_they_expand():
    values = pa.array(np.arange(1 << 16))
    rows = 1 << 16
    bomb = pa.ListViewArray.from_arrays(
        pa.array(np.zeros(rows, dtype=np.int32)),
        pa.array(np.full(rows, len(values), dtype=np.int32)),
        values,
    )
    with pytest.raises(LimitExceeded) as caught:
        list_parts(bomb, path="a", column="tokens")
    assert (caught.value.path, caught.value.column) == ("a", "tokens")


@pytest.mark.parametrize("arrow_type", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("rows", [slice(0, 4), slice(1, 3), slice(2, 2)])
def test_texts_of_every_variant_are_the_same(arrow_type, rows):
    array = pa.array([*TEXTS[:3], None], arrow_type)[rows]
    assert strings(array, path="a", column="b") == [*TEXTS[:3], None][rows]
    whole = pa.array(TEXTS, arrow_type)[rows]
    assert lengths(whole).tolist() == [len(text.encode()) for text in TEXTS[rows]]


def test_rows_of_a_dictionary_share_its_texts():
    array = pa.array(["ab", None, "cd", "ab"]).dictionary_encode()
    found = strings(array, path="a", column="b")
    assert found == ["ab", None, "cd", "ab"]
    assert found[0] is found[3]


@pytest.mark.parametrize("arrow_type", TEXT_TYPES, ids=str)
def test_texts_past_the_limits_are_refused(monkeypatch, arrow_type):
    array = pa.array(["abc", "de"], arrow_type)
    monkeypatch.setattr(ragged, "MAX_COLUMN_STRING_BYTES", 4)
    with pytest.raises(LimitExceeded):
        strings(array, path="a", column="b")
    monkeypatch.undo()
    monkeypatch.setattr(ragged, "MAX_STRING_BYTES", 2)
    with pytest.raises(LimitExceeded) as caught:
        strings(array, path="a", column="b")
    assert (caught.value.path, caught.value.column) == ("a", "b")


def test_the_row_of_a_value_skips_empty_lists():
    offsets = np.array([0, 2, 2, 3])
    assert [list_row(offsets, value_idx) for value_idx in range(3)] == [0, 0, 2]
