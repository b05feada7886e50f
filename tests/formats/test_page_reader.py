"""A file of page digests by hand: what may not be in one is refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import FileCorrupt, InputError, KvauditError, SchemaMismatch, ValuesInvalid
from kvaudit.formats.reader import read_file, read_with_notes
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.formats.test_page_grain import page_digests
from tests.helpers.arrow_files import write_by_hand

BY_PAGE = {"kvaudit.digest_grain": "page"}


def bits(*values: int) -> pa.Array:
    return pa.array([bytes([value]) for value in values], pa.binary(1))


def by_hand(path: Path, *, metadata: dict[str, str] = BY_PAGE, **columns: pa.Array) -> str:
    """Two pages of two slots, and one slot of a third."""
    plain = {
        "slot": pa.array([2, 4, 9]),
        "page_slots": bits(3, 3, 2),
        "digest.k.0": pa.array([11, 12, 13]),
        **columns,
    }
    kept = {name: array for name, array in plain.items() if array is not None}
    return write_by_hand(path, "snapshot", kept, metadata=metadata)


def refusal(path: str) -> InputError:
    with pytest.raises(KvauditError) as refused:
        read_file(path)
    assert isinstance(refused.value, InputError)
    assert refused.value.path == path
    assert refused.value.hint
    return refused.value


def test_a_file_by_hand_is_read_and_noted(tmp_path: Path) -> None:
    found = read_with_notes(by_hand(tmp_path / "a.arrow"))
    content = found.content
    assert isinstance(content, Snapshot)
    assert content.slots.tolist() == [2, 3, 4, 5, 9]
    assert content.num_slots == 10
    assert content.digests["kv.k.0"].read().tolist() == [11, 11, 12, 12, 13]
    assert any("digests are of pages" in note for note in found.input_file.notes)


def test_a_grain_that_is_none_is_refused(tmp_path: Path) -> None:
    path = by_hand(tmp_path / "a.arrow", metadata={"kvaudit.digest_grain": "block"})
    error = refusal(path)
    assert isinstance(error, SchemaMismatch)
    assert "kvaudit.digest_grain is 'block', not slot or page" in error.message


def test_page_slots_without_the_grain_is_a_column_of_no_meaning(tmp_path: Path) -> None:
    found = read_with_notes(by_hand(tmp_path / "a.arrow", metadata={}))
    assert found.content.slots.tolist() == [2, 4, 9]
    assert "columns not of the format: page_slots" in found.input_file.notes


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("page_slots", None),
        ("page_slots", pa.array([3, 3, 2])),
        ("page_slots", pa.array([b"ab"] * 3, pa.binary(2))),
        ("kv.k.0", pa.array([b"ab"] * 3, pa.binary(2))),
        ("canary.k.tail", pa.array([[1, 2, 3, 4]] * 3, pa.list_(pa.int64(), 4))),
        ("swa_slot", pa.array([1, 2, 3])),
        ("alloc.ref", pa.array([1, 2, 3], pa.int32())),
        ("alloc.state", pa.array(["live"] * 3)),
    ],
)
def test_a_column_that_is_missing_mistyped_or_of_slots_is_refused(
    tmp_path: Path, name: str, array: pa.Array | None
) -> None:
    error = refusal(by_hand(tmp_path / "a.arrow", **{name: array}))
    assert isinstance(error, SchemaMismatch)
    assert error.column == name


def test_a_null_and_bits_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for array, row in (
        (pa.array([b"\x03", None, b"\x02"], pa.binary(1)), 1),
        (bits(3, 3, 1), 2),
        (bits(7, 3, 2), 0),
    ):
        error = refusal(by_hand(tmp_path / "a.arrow", page_slots=array))
        assert isinstance(error, ValuesInvalid)
        assert (error.column, error.row) == ("page_slots", row)


def test_a_changed_bit_of_page_slots_is_damage_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_snapshot(path, page_digests())
    data = path.read_bytes()
    written = b"\x08\x00\x0f\x00\xa0\x00"
    assert data.count(written) == 1
    path.write_bytes(data.replace(written, b"\x08\x00\x07\x00\xa0\x00"))
    error = refusal(str(path))
    assert isinstance(error, FileCorrupt)
    assert error.column == "page_slots"
