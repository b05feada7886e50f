"""Digests of pages: in the file a row is a page, in the Snapshot still a slot.

`page_slots` says which slots of its page a row speaks of: one bit each, the page's first slot in
the lowest bit of the first byte. FORMAT.md, Digests of pages, is the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.core.kv_column import PageColumn, RowColumn
from kvaudit.core.layout import rows_per_page
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import LimitExceeded, SchemaMismatch, SnapshotInconsistent, ValuesInvalid
from kvaudit.formats.limits import LIMIT_HINT, MAX_PAGE_SLOTS
from kvaudit.formats.schema import SLOT_COLUMN, column_family

PAGE_SLOTS_COLUMN: Final = "page_slots"
# What one value of a page is, of those of its slots: the last write, the stamp that all have.
_STEPS: Final[dict[str, Callable[..., Any]]] = {
    "written_step": np.maximum.reduceat,
    "stamped_step": np.minimum.reduceat,
}
_BYTE_BITS: Final = 8


def page_slots_type(page_size: int) -> pa.DataType:
    """The type of the column: as many bytes as the slots of a page have bits."""
    return pa.binary(-(-page_size // _BYTE_BITS))


def check_page_columns(names: Iterable[str], path: str) -> None:
    """Refuse a file of page digests that lacks `page_slots` or holds values of slots.

    Raises:
        SchemaMismatch: naming the column.
    """
    known = [name for name in names if name != SLOT_COLUMN]
    if PAGE_SLOTS_COLUMN not in known:
        raise SchemaMismatch(
            "it is not there, and kvaudit.digest_grain is page",
            path=path,
            column=PAGE_SLOTS_COLUMN,
            hint="write which slots of its page each row speaks of",
        )
    for name in known:
        is_of_pages = column_family(name) in ("stamped", "digest") or name in _STEPS
        if not is_of_pages and name != PAGE_SLOTS_COLUMN:
            raise SchemaMismatch(
                "its values are of slots, and kvaudit.digest_grain is page",
                path=path,
                column=name,
                hint="leave the column out, or dump the digests of slots",
            )


def slots_of_pages(
    first_slots: NDArray[np.int64], page_slots: NDArray[np.uint8], *, page_size: int, path: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The slots that the rows of a file speak of, and how many each row does.

    Args:
        first_slots: column `slot`, shape [pages], int64, ascending.
        page_slots: column `page_slots`, shape [pages, bytes], uint8.
        page_size: slots a page.
        path: the file, for messages.

    Returns:
        shape [n], int64, ascending, and shape [pages], int64.

    Raises:
        ValuesInvalid: two rows are of one page, a row's lowest bit is not its slot's, or a bit is
            past the page.
        LimitExceeded: there are too many slots.
    """
    pages = first_slots // page_size
    falls = np.flatnonzero(pages[1:] <= pages[:-1])
    if falls.size:
        row = int(falls[0]) + 1
        raise ValuesInvalid(
            f"slot {first_slots[row]} is of page {pages[row]}, which follows page {pages[row - 1]}",
            path=path,
            column=SLOT_COLUMN,
            row=row,
            hint="sort the rows by slot and keep one row a page",
        )
    counts = np.bitwise_count(page_slots).sum(axis=1, dtype=np.int64)
    if int(counts.sum()) > MAX_PAGE_SLOTS:
        raise LimitExceeded(
            f"{counts.sum()} slots; at most {MAX_PAGE_SLOTS} are read",
            path=path,
            column=PAGE_SLOTS_COLUMN,
            hint=LIMIT_HINT,
        )
    rows, in_page = _set_bits(page_slots)
    lowest = np.full(len(pages), -1, dtype=np.int64)
    highest = lowest.copy()
    # Of equal indices the last assignment stands: the bits come in ascending order.
    lowest[rows[::-1]], highest[rows] = in_page[::-1], in_page
    wrong = np.flatnonzero((lowest != first_slots % page_size) | (highest >= page_size))
    if wrong.size:
        row = int(wrong[0])
        raise ValuesInvalid(
            f"its bits do not begin with slot {first_slots[row]}, or go past the page's "
            f"{page_size} slots",
            path=path,
            column=PAGE_SLOTS_COLUMN,
            row=row,
            hint="set bit i for slot i of the page; the row's slot is the first of them",
        )
    return pages[rows] * page_size + in_page, counts


def _set_bits(page_slots: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and place of each bit that is set, shape [n] both, int64, in ascending order.

    Only bytes that have one are unpacked: a page may have millions of slots and name one.
    """
    rows, byte_indices = np.nonzero(page_slots)
    bits = np.unpackbits(page_slots[rows, byte_indices][:, None], axis=1, bitorder="little")
    used, bit_indices = np.nonzero(bits)
    return rows[used], byte_indices[used] * _BYTE_BITS + bit_indices


class PageRows:
    """The rows of a file of page digests, from a snapshot's rows of slots.

    Fields:
        first_slots: the first slot of each page, shape [pages], int64.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._slots, self._page_size = snapshot.slots, snapshot.page_size
        self._counts = rows_per_page(snapshot.slots, snapshot.page_size)
        self._first_rows = np.cumsum(self._counts) - self._counts
        self.first_slots = snapshot.slots[self._first_rows]

    def values_of(self, name: str, column: RowColumn) -> NDArray[Any]:
        """A column's value of each page, shape [pages], the column's own dtype.

        Raises:
            SnapshotInconsistent: the column has not one value a slot, or the slots of a page do not
                carry one digest.
        """
        if isinstance(column, PageColumn) and np.array_equal(column.rows_per_page, self._counts):
            return column.pages.read()
        values = column.read()
        if values.shape != self._slots.shape:
            raise SnapshotInconsistent(
                f"the values have shape {values.shape}, not {self._slots.shape}",
                column=name,
                hint="give every column a value a slot",
            )
        if name in _STEPS and len(values):
            steps: NDArray[Any] = _STEPS[name](values, self._first_rows)
            return steps
        of_pages: NDArray[Any] = values[self._first_rows]
        if column_family(name) and not np.array_equal(np.repeat(of_pages, self._counts), values):
            raise SnapshotInconsistent(
                "the slots of a page carry different digests, which are of pages",
                column=name,
                hint="give all slots of a page its digest, or write digests of slots",
            )
        return of_pages

    def page_slots(self) -> tuple[pa.Field, NDArray[np.uint8]]:
        """The column that says which slots a row is of; values have shape [pages, bytes]."""
        arrow_type = page_slots_type(self._page_size)
        num_pages = len(self._counts)
        bits = np.zeros((num_pages, arrow_type.byte_width * _BYTE_BITS), dtype=np.bool_)
        bits[np.repeat(np.arange(num_pages), self._counts), self._slots % self._page_size] = True
        field = pa.field(PAGE_SLOTS_COLUMN, arrow_type, nullable=False)
        return field, np.packbits(bits, axis=1, bitorder="little")
