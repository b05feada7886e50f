"""The port through which a pool's columns reach the kernels.

`formats` implements it over a mapped file; `ArrayColumn` and `ArrayKvColumn` over arrays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

WINDOW_BYTES = 4 << 20


def _nothing_to_prove(_next_is_walked: bool) -> Iterator[int]:
    """Arrays in memory carry no digests."""
    return iter(())


class RowColumn(Protocol):
    """One value a row of the snapshot: records, stamped digests, digests, evidence."""

    @property
    def name(self) -> str:
        """The column's name in the file, such as `canary.k.tail` or `stamped.v.3`."""
        ...

    def read(self) -> NDArray[Any]:
        """The values, shape [num_rows] or [num_rows, 4], read-only; no copy where possible.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DigestedBytes:
    """Rows that lie one after another and carry digests, of which windows show parts.

    Fields:
        content: all bytes of the rows, shape [num_bytes], uint8, contiguous, read-only.
        chunk_bytes: bytes that a digest covers, a multiple of 1024; the last chunk may be shorter.
        digests: xxh3_64 of each chunk as written, shape [num_chunks], uint64; shape [0]: none.
        prove_chunk: hashes a chunk, by its number, and raises FileCorrupt where that differs.
    """

    content: NDArray[np.uint8]
    chunk_bytes: int
    digests: NDArray[np.uint64]
    prove_chunk: Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KvWindow:
    """A run of rows of one KV column.

    Fields:
        first_row: the row of the snapshot that data[0] is.
        data: the KV bytes, shape [num_rows, row_bytes], uint8, read-only.
        prove: hashes every chunk that these rows lie in, each chunk once a walk, yields how many
            leading rows are hashed after each piece of a chunk, and raises FileCorrupt where a
            digest is not the one written in the file. Its argument says whether the next window is
            walked too: the chunk that both share is then left to that one. It may run beside those
            of other windows.
        digested: what the rows are part of, for who hashes chunks elsewhere than `prove` does; None
            where there is nothing but `prove`.
        first_byte: where data begins in it.
    """

    first_row: int
    data: NDArray[np.uint8]
    prove: Callable[[bool], Iterator[int]] = _nothing_to_prove
    digested: DigestedBytes | None = None
    first_byte: int = 0

    def parts(self, *, next_is_walked: bool = False) -> Iterator[slice]:
        """All rows in ascending order, in parts whose bytes a core's cache holds: just hashed.

        Nothing that was read of the window counts before the iterator has ended.

        Args:
            next_is_walked: whether the caller goes through the parts of the next window too.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        first, num_rows = 0, len(self.data)
        for num_hashed in self.prove(next_is_walked):
            last = min(num_hashed, num_rows)
            if first < last:
                yield slice(first, last)
                first = last
        if first < num_rows:
            yield slice(first, num_rows)

    def check(self) -> None:
        """Prove every byte of the window, in the pass that reads it.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        for _ in self.parts():
            pass


class KvColumn(Protocol):
    """The KV bytes of one layer and half, walked in windows.

    Fields:
        name: the column's name in the file, such as `kv.k.0` or `kv.side.scales`.
        num_rows: rows of the snapshot.
        row_bytes: bytes a row holds.
        read_bytes: leading bytes of a row that a digest covers, at most row_bytes.
        dtype: element type as the dumper named it (`bfloat16`), "" when unknown.
        is_resident: whether the rows lie in memory or in a map one after another, so that all of
            them can be read at once without a copy.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - the class docstring says it
    @property
    def num_rows(self) -> int: ...  # noqa: D102
    @property
    def row_bytes(self) -> int: ...  # noqa: D102
    @property
    def read_bytes(self) -> int: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def is_resident(self) -> bool: ...  # noqa: D102

    def windows(self) -> Iterator[KvWindow]:
        """All rows in ascending order, each in exactly one window; no copy.

        A window has at most WINDOW_BYTES and one row.
        """
        ...

    def read_rows(self, first_row: int, last_row: int) -> NDArray[np.uint8]:
        """The bytes of rows [first_row, last_row), shape [n, row_bytes], uint8, read-only.

        For looking at a few rows and for rewriting a batch; no digest is checked.
        """
        ...


def windows_without_digests(column: KvColumn) -> Iterator[KvWindow]:
    """The windows of a column that carries no digests of itself.

    All rows in ascending order, at most WINDOW_BYTES of them read at a time.
    """
    rows_per_window = max(1, WINDOW_BYTES // max(1, column.row_bytes))
    for first_row in range(0, column.num_rows, rows_per_window):
        last_row = min(first_row + rows_per_window, column.num_rows)
        yield KvWindow(first_row=first_row, data=column.read_rows(first_row, last_row))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayColumn:
    """A RowColumn over an array in memory.

    Fields:
        name: the column's name.
        values: one value a row, shape [num_rows] or [num_rows, 4], the column's own dtype.
    """

    name: str
    values: NDArray[Any]

    def read(self) -> NDArray[Any]:
        """The values themselves."""
        return self.values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComputedColumn:
    """A RowColumn whose values are computed when they are read, and not kept.

    Fields:
        name: the column's name.
        compute: gives the values, shape [num_rows] or [num_rows, 4], the column's own dtype.
    """

    name: str
    compute: Callable[[], NDArray[Any]]

    def read(self) -> NDArray[Any]:
        """Compute the values."""
        return self.compute()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageColumn:
    """A RowColumn of which all rows of a page have one value.

    Fields:
        pages: the column with a value a page.
        rows_per_page: how many consecutive rows each page has, shape [pages], int64.
    """

    pages: RowColumn
    rows_per_page: NDArray[np.int64]

    @property
    def name(self) -> str:
        """The column's name."""
        return self.pages.name

    def read(self) -> NDArray[Any]:
        """The value of each row, shape [num_rows], the column's own dtype."""
        values = np.repeat(self.pages.read(), self.rows_per_page)
        values.setflags(write=False)
        return values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayKvColumn:
    """A KvColumn over an array in memory.

    Fields:
        name: the column's name.
        data: the KV bytes, shape [num_rows, row_bytes], uint8.
        read_bytes: leading bytes of a row that a digest covers.
        dtype: element type as the dumper named it.
    """

    name: str
    data: NDArray[np.uint8]
    read_bytes: int
    dtype: str = ""

    @property
    def is_resident(self) -> bool:
        """The rows are in memory."""
        return True

    @property
    def num_rows(self) -> int:
        """Rows of the column."""
        return int(self.data.shape[0])

    @property
    def row_bytes(self) -> int:
        """Bytes a row holds."""
        return int(self.data.shape[1])

    def windows(self) -> Iterator[KvWindow]:
        """All rows in ascending order, at most WINDOW_BYTES a window."""
        return windows_without_digests(self)

    def read_rows(self, first_row: int, last_row: int) -> NDArray[np.uint8]:
        """The bytes of rows [first_row, last_row), shape [n, row_bytes], uint8."""
        return self.data[first_row:last_row]
