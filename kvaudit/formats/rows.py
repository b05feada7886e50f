"""The columns of a file that is read whole: sequences and plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvaudit.errors import LimitExceeded, ValuesInvalid
from kvaudit.formats.arrow_file import ArrowFile
from kvaudit.formats.columns import check_column
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


class RowReader:
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
        self.path = file.path
        self.num_rows = file.num_rows
        if self.num_rows > MAX_OBJECT_ROWS:
            raise LimitExceeded(
                f"{self.num_rows} rows; at most {MAX_OBJECT_ROWS} are read",
                path=file.path,
                hint=LIMIT_HINT,
            )
        present = file.check_types(required, optional)
        self.notes = file.ignored_notes({*present, *unread})
        self._batches = file.read_columns(present, nullable=nullable)
        for name, batches in self._batches.items():
            for batch in batches:
                check_column(file.source, name, batch)

    def has(self, name: str) -> bool:
        """Whether the file has a column."""
        return name in self._batches

    def invalid(
        self, message: str, *, column: str, row: int | None = None, hint: str = ""
    ) -> ValuesInvalid:
        """The error for a value that FORMAT.md forbids."""
        return ValuesInvalid(message, path=self.path, column=column, row=row, hint=hint)

    def integers(self, name: str, dtype: type[Integer]) -> NDArray[Integer]:
        """The values of an int column, shape [num_rows], of dtype."""
        parts = [value_bytes(batch.array).view(dtype) for batch in self._batches[name]]
        return _joined(parts, dtype)

    def flags(self, name: str) -> NDArray[np.bool_]:
        """The values of a bool column, shape [num_rows], bool."""
        parts = [batch.array.to_numpy(zero_copy_only=False) for batch in self._batches[name]]
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
        """A list<int64> column; one batch of a plain list column is not copied."""
        offsets, values, num_values = [np.zeros(1, dtype=np.int64)], [], 0
        for batch in self._batches[name]:
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


def _joined(parts: list[NDArray[Integer]], dtype: type[Integer]) -> NDArray[Integer]:
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate([np.zeros(0, dtype=dtype), *parts])
    joined.setflags(write=False)
    return joined
