"""Arrays over numpy memory, and files that any Arrow reader opens."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.formats import arrow_writer
from kvaudit.formats.arrow_writer import fixed_width_array, list_array, write_arrow
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
        metadata={"kvaudit.note": "x"},
        num_rows=3,
        batches=[[pa.array([1, 2])], [pa.array([3])]],
    )
    reader = pa.ipc.open_file(path)
    assert reader.num_record_batches == 2
    assert reader.read_all()["step"].to_pylist() == [1, 2, 3]
    assert reader.schema.metadata[b"kvaudit.kind"] == b"plan"


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in ("a.arrow", "b.arrow"):
        write_arrow(
            tmp_path / name,
            kind=FileKind.PLAN,
            fields=[pa.field("step", pa.int64())],
            metadata={"kvaudit.b": "2", "kvaudit.a": "1"},
            num_rows=1,
            batches=[[pa.array([1])]],
        )
    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()
