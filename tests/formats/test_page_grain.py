"""Digests of pages: a row a page in the file, a row a slot in the Snapshot."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.core.kv_column import ArrayColumn, PageColumn
from kvaudit.core.snapshot import DigestGrain, Snapshot
from kvaudit.errors import LimitExceeded, SchemaMismatch, SnapshotInconsistent, ValuesInvalid
from kvaudit.formats import page_grain
from kvaudit.formats.limits import MAX_PAGE_SIZE
from kvaudit.formats.page_grain import page_slots_type, slots_of_pages
from kvaudit.formats.reader import read_file
from kvaudit.formats.snapshot_writer import write_snapshot

SLOTS = np.array([3, 12, 13, 14, 15, 29, 31], dtype=np.int64)
COUNTS = np.array([1, 4, 2])


def pages_of(*values: int) -> PageColumn:
    return PageColumn(
        pages=ArrayColumn(name="", values=np.array(values, dtype=np.int64)), rows_per_page=COUNTS
    )


def steps(*values: int) -> ArrayColumn:
    return ArrayColumn(name="", values=np.array(values, dtype=np.int64))


def page_digests(**changes: object) -> Snapshot:
    """Three pages of 12 slots: one, four and two slots of each."""
    plain = Snapshot(
        slots=SLOTS,
        num_slots=48,
        page_size=12,
        digest_grain=DigestGrain.PAGE,
        digests={"kv.k.0": pages_of(5, -6, 7), "kv.v.0": pages_of(8, 9, -1)},
        stamped={"kv.k.0": pages_of(5, -6, 0)},
    )
    return replace(plain, **changes)


def test_the_file_has_a_row_a_page(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "a.arrow", page_digests())
    table = pa.ipc.open_file(tmp_path / "a.arrow").read_all()
    assert table.schema.metadata[b"kvaudit.digest_grain"] == b"page"
    assert table.column("slot").to_pylist() == [3, 12, 29]
    assert table.column("digest.k.0").to_pylist() == [5, -6, 7]
    bits = [int.from_bytes(value, "little") for value in table.column("page_slots").to_pylist()]
    assert bits == [1 << 3, 0b1111, 1 << 5 | 1 << 7]
    assert table.schema.field("page_slots").type == pa.binary(2)


@pytest.mark.parametrize("batch_rows", [None, 1, 2])
def test_what_is_read_is_a_row_a_slot_again(tmp_path: Path, batch_rows: int | None) -> None:
    wanted = page_digests()
    write_snapshot(tmp_path / "a.arrow", wanted, batch_rows=batch_rows)
    found = read_file(tmp_path / "a.arrow")
    assert found.digest_grain is DigestGrain.PAGE
    np.testing.assert_array_equal(found.slots, SLOTS)
    for family in ("digests", "stamped"):
        columns = getattr(found, family)
        assert list(columns) == list(getattr(wanted, family))
        for name, column in getattr(wanted, family).items():
            np.testing.assert_array_equal(columns[name].read(), column.read())
    write_snapshot(tmp_path / "b.arrow", found, batch_rows=batch_rows)
    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()


def test_digests_of_slots_say_nothing_of_a_grain(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "a.arrow", page_digests(digest_grain=DigestGrain.SLOT))
    schema = pa.ipc.open_file(tmp_path / "a.arrow").schema
    assert b"kvaudit.digest_grain" not in schema.metadata
    assert "page_slots" not in schema.names
    assert read_file(tmp_path / "a.arrow").digest_grain is DigestGrain.SLOT


def test_a_page_was_written_last_and_stamped_whole_or_never(tmp_path: Path) -> None:
    evidence = {
        "written_step": steps(1, 2, 5, 3, 3, 4, 4),
        "stamped_step": steps(1, 2, 3, 3, -1, 4, 6),
    }
    write_snapshot(tmp_path / "a.arrow", page_digests(evidence=evidence))
    found = read_file(tmp_path / "a.arrow").evidence
    assert found["written_step"].read().tolist() == [1, 5, 5, 5, 5, 4, 4]
    assert found["stamped_step"].read().tolist() == [1, -1, -1, -1, -1, 4, 4]


def test_a_snapshot_without_a_page_comes_back(tmp_path: Path) -> None:
    nothing = np.empty(0, dtype=np.int64)
    column = PageColumn(pages=ArrayColumn(name="", values=nothing), rows_per_page=nothing)
    empty = page_digests(
        slots=nothing,
        digests={"kv.k.0": column},
        stamped={},
        evidence={"stamped_step": ArrayColumn(name="", values=nothing)},
    )
    write_snapshot(tmp_path / "a.arrow", empty)
    assert read_file(tmp_path / "a.arrow").num_rows == 0


def test_slots_of_a_page_with_different_digests_are_not_written(tmp_path: Path) -> None:
    column = steps(5, -6, -6, -6, 1, 7, 7)
    with pytest.raises(SnapshotInconsistent, match="different digests") as refused:
        write_snapshot(tmp_path / "a.arrow", page_digests(digests={"kv.k.0": column}))
    assert refused.value.column == "digest.k.0"
    assert list(tmp_path.iterdir()) == []


def test_values_of_fewer_slots_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(SnapshotInconsistent, match="shape") as refused:
        write_snapshot(tmp_path / "a.arrow", page_digests(digests={"kv.k.0": steps(1, 2, 3)}))
    assert refused.value.column == "digest.k.0"


@pytest.mark.parametrize("values", [(5, -6, -6, -6, -6, 7, 7), (5, -6, 7)])
def test_pages_are_the_same_from_values_of_slots_and_of_pages(
    tmp_path: Path, values: tuple[int, ...]
) -> None:
    column = steps(*values) if len(values) == len(SLOTS) else pages_of(*values)
    write_snapshot(tmp_path / "a.arrow", page_digests(digests={"kv.k.0": column}, stamped={}))
    table = pa.ipc.open_file(tmp_path / "a.arrow").read_all()
    assert table.column("digest.k.0").to_pylist() == [5, -6, 7]


def test_a_value_of_slots_is_not_written(tmp_path: Path) -> None:
    evidence = {"swa_slot": steps(*range(7))}
    with pytest.raises(SchemaMismatch, match="of slots") as refused:
        write_snapshot(tmp_path / "a.arrow", page_digests(evidence=evidence))
    assert refused.value.column == "swa_slot"


@pytest.mark.parametrize(("page_size", "width"), [(1, 1), (8, 1), (9, 2), (16, 2), (256, 32)])
def test_a_bit_a_slot_is_rounded_up_to_bytes(page_size: int, width: int) -> None:
    assert page_slots_type(page_size) == pa.binary(width)


def bits_of(*rows: int, width: int = 1) -> np.ndarray:
    return np.array([list(row.to_bytes(width, "little")) for row in rows], dtype=np.uint8)


def test_bits_are_slots_of_their_page() -> None:
    slots, counts = slots_of_pages(
        np.array([0, 6, 9]), bits_of(0b1011, 0b0100, 0b0010), page_size=4, path="a"
    )
    assert slots.tolist() == [0, 1, 3, 6, 9]
    assert counts.tolist() == [3, 1, 1]


@pytest.mark.parametrize(
    ("first_slots", "bits", "row"),
    [
        ([0, 4], (1, 0), 1),
        ([0, 5], (1, 1), 1),
        ([1, 4], (3, 1), 0),
        ([0, 4], (1, 0b10001), 1),
        ([7, 8], (0b10000, 1), 0),
    ],
    ids=["no bit", "a bit before", "a bit before the first", "past the page", "past it alone"],
)
def test_bits_that_do_not_fit_their_slot_are_refused(
    first_slots: list[int], bits: tuple[int, ...], row: int
) -> None:
    with pytest.raises(ValuesInvalid) as refused:
        slots_of_pages(np.array(first_slots), bits_of(*bits), page_size=4, path="a")
    assert (refused.value.path, refused.value.column, refused.value.row) == ("a", "page_slots", row)
    assert refused.value.hint


@pytest.mark.parametrize("first_slots", [[4, 6], [4, 0], [4, 4]])
def test_a_page_has_one_row_and_pages_ascend(first_slots: list[int]) -> None:
    bits = bits_of(*(1 << slot % 4 for slot in first_slots))
    with pytest.raises(ValuesInvalid) as refused:
        slots_of_pages(np.array(first_slots), bits, page_size=4, path="a")
    assert (refused.value.column, refused.value.row) == ("slot", 1)


def test_too_many_slots_are_refused_before_they_are_numbered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_grain, "MAX_PAGE_SLOTS", 4)
    with pytest.raises(LimitExceeded) as refused:
        slots_of_pages(np.array([0, 4]), bits_of(0b1111, 1), page_size=4, path="a")
    assert refused.value.column == "page_slots"


def test_bits_that_are_not_set_take_no_memory() -> None:
    bits = np.zeros((8, page_slots_type(MAX_PAGE_SIZE).byte_width), dtype=np.uint8)
    bits[:, 0] = 1
    first_slots = np.arange(8) * MAX_PAGE_SIZE
    tracemalloc.start()
    try:
        slots, counts = slots_of_pages(first_slots, bits, page_size=MAX_PAGE_SIZE, path="a")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (slots.tolist(), counts.tolist()) == (first_slots.tolist(), [1] * 8)
    assert peak < 2 * bits.nbytes
