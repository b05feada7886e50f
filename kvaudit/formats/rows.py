"""The columns of a file whose rows become objects: of a whole file, or of one batch of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvaudit.errors import LimitExceeded, ValuesInvalid
from kvaudit.formats.arrow_file import ArrowFile
from kvaudit.formats.columns import ColumnBatch, check_column
from kvaudit.formats.digests import value_bytes
from kvaudit.formats.limits import LIMIT_HINT, MAX_OBJECT_ROWS
from kvaudit.formats.ragged import list_parts, strings

Integer = TypeVar("Integer", np.int32, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntegerLists:
    """A list<int64> column.

    Fields:
        offsets: shape [num_rows + 1], int64, ascending from 0.
        values: the values of all rows, shape [offsets[-1]], int64.
    """

    offsets: NDArray[np.int64]
    values: NDArray[np.int64]


class RowLists:
    """List columns, cut into rows without a numpy call a row."""

    def __init__(self, lists: Mapping[str, IntegerLists]) -> None:
        self._values = {name: column.values for name, column in lists.items()}
        self._offsets = {name: column.offsets.tolist() for name, column in lists.items()}

    def row(self, name: str, row: int) -> NDArray[np.int64]:
        """One row of a column, shape [n], int64."""
        offsets = self._offsets[name]
        return self._values[name][offsets[row] : offsets[row + 1]]

    def is_empty(self, name: str, row: int) -> bool:
        """Whether a row of a column has no value."""
        offsets = self._offsets[name]
        return bool(offsets[row] == offsets[row + 1])


class Rows:
    """Proven columns, handed out by name.

    Args:
        path: the file, for messages.
        num_rows: their rows.
        batches: each column in file order.
        first_row: the row of the file that is their first.
    """

    def __init__(
        self,
        path: str,
        *,
        num_rows: int,
        batches: Mapping[str, Sequence[ColumnBatch]],
        first_row: int = 0,
    ) -> None:
        self.path = path
        self.num_rows = num_rows
        self.first_row = first_row
        self._batches = batches

    def has(self, name: str) -> bool:
        """Whether the file has a column."""
        return name in self._batches

    def invalid(
        self, message: str, *, column: str, row: int | None = None, hint: str = ""
    ) -> ValuesInvalid:
        """The error for a value that FORMAT.md forbids, in a row of these."""
        if row is not None:
            row += self.first_row
        return ValuesInvalid(message, path=self.path, column=column, row=row, hint=hint)

    def is_given(self, name: str) -> NDArray[np.bool_]:
        """Which rows of a column are not null, shape [num_rows], bool; none where it is absent."""
        if not self.has(name):
            return np.zeros(self.num_rows, dtype=np.bool_)
        parts = [
            batch.array.is_valid().to_numpy(zero_copy_only=False) for batch in self._batches[name]
        ]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])

    def integers(self, name: str, dtype: type[Integer]) -> NDArray[Integer]:
        """The values of an int column, shape [num_rows], of dtype; any where null."""
        parts = [value_bytes(batch.array).view(dtype) for batch in self._batches[name]]
        return _joined(parts, dtype)

    def flags(self, name: str) -> NDArray[np.bool_]:
        """The values of a bool column, shape [num_rows], bool; False where null."""
        parts = [
            batch.array.fill_null(False).to_numpy(zero_copy_only=False)
            for batch in self._batches[name]
        ]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])

    def texts(self, name: str) -> list[str]:
        """The texts of a column without nulls."""
        return [text or "" for text in self.optional_texts(name)]

    def optional_texts(self, name: str) -> list[str | None]:
        """The texts of a column; None where null, and everywhere when the column is absent."""
        if not self.has(name):
            return [None] * self.num_rows
        return [
            text
            for batch in self._batches[name]
            for text in strings(batch.array, path=self.path, column=name)
        ]

    def integer_lists(self, name: str) -> IntegerLists:
        """A list<int64> column, empty where it is null or absent.

        One batch of a plain list column without nulls is not copied.
        """
        offsets, values, num_values = [np.zeros(1, dtype=np.int64)], [], 0
        if not self.has(name):
            offsets.append(np.zeros(self.num_rows, dtype=np.int64))
        for batch in self._batches.get(name, ()):
            batch_offsets, array = list_parts(batch.array, path=self.path, column=name)
            offsets.append(batch_offsets[1:] + num_values)
            num_values += int(batch_offsets[-1])
            values.append(value_bytes(array).view(np.int64))
        return IntegerLists(offsets=np.concatenate(offsets), values=_joined(values, np.int64))

    def text_lists(self, name: str) -> list[list[str] | None]:
        """A list<string> column; None where null, and everywhere when the column is absent."""
        if not self.has(name):
            return [None] * self.num_rows
        lists: list[list[str] | None] = []
        for batch in self._batches[name]:
            offsets, array = list_parts(batch.array, path=self.path, column=name)
            texts = [text or "" for text in strings(array, path=self.path, column=name)]
            bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
            is_valid = batch.array.is_valid().to_pylist()
            lists += [
                texts[first:last] if valid else None
                for (first, last), valid in zip(bounds, is_valid, strict=True)
            ]
        return lists


class RowReader(Rows):
    """Opens the columns of one file, proves them, and hands them out by name.

    Args:
        file: the open file.
        required: types of the columns that must be there.
        optional: types of the columns that may be.
        nullable: those whose rows may be null.
        unread: columns of the format that are passed over without a note.

    Raises:
        SchemaMismatch: a column is missing or has another type.
        ValuesInvalid: a null where none may be.
        LimitExceeded: too many rows.
        FileCorrupt: a digest differs.
    """

    def __init__(
        self,
        file: ArrowFile,
        required: Mapping[str, Any],
        optional: Mapping[str, Any],
        *,
        nullable: Collection[str] = (),
        unread: Collection[str] = (),
    ) -> None:
        check_row_count(file)
        present = file.check_types(required, optional)
        batches = file.read_columns(present, nullable=nullable)
        for name, column in batches.items():
            for batch in column:
                check_column(file.source, name, batch)
        super().__init__(file.path, num_rows=file.num_rows, batches=batches)
        self.notes = file.ignored_notes({*present, *unread})


def check_row_count(file: ArrowFile) -> None:
    """Refuse more rows than may become objects.

    Raises:
        LimitExceeded: there are.
    """
    if file.num_rows > MAX_OBJECT_ROWS:
        raise LimitExceeded(
            f"{file.num_rows} rows; at most {MAX_OBJECT_ROWS} are read",
            path=file.path,
            hint=LIMIT_HINT,
        )


def _joined(parts: list[NDArray[Integer]], dtype: type[Integer]) -> NDArray[Integer]:
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate([np.zeros(0, dtype=dtype), *parts])
    joined.setflags(write=False)
    return joined
