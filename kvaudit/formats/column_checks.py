"""What every column must pass before a value of it is used."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kvaudit.errors import SchemaMismatch, ValuesInvalid
from kvaudit.formats.columns import ColumnBatch, corrupt
from kvaudit.formats.digests import CHUNK_BYTES, has_digest
from kvaudit.formats.file_bytes import FileBytes
from kvaudit.formats.ragged import list_parts, list_row
from kvaudit.formats.schema import is_list


def refuse_nulls(
    path: str, name: str, array: pa.Array, *, first_row: int, whole_rows: bool
) -> None:
    """Refuse null values, within lists too.

    Args:
        path: the file.
        name: the column.
        array: one batch of it.
        first_row: the row of the file that array[0] is.
        whole_rows: whether a row itself may not be null.

    Raises:
        ValuesInvalid: naming the first such row.
    """
    if whole_rows and array.null_count:
        _refuse(path, name, first_row + _first_null(array))
    if pa.types.is_fixed_size_list(array.type):
        values = array.flatten()
        if values.null_count:
            _refuse(path, name, first_row + _first_null(values) // array.type.list_size)
    elif is_list(array.type) and array.values.null_count:
        offsets, values = list_parts(array, path=path, column=name)
        if values.null_count:
            _refuse(path, name, first_row + list_row(offsets, _first_null(values)))


def _first_null(array: pa.Array) -> int:
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))


def _refuse(path: str, name: str, row: int) -> None:
    raise ValuesInvalid(
        "it is null",
        path=path,
        column=name,
        row=row,
        hint="write a value in every row, or leave the column out",
    )


def check_chunk_count(
    source: FileBytes, name: str, column: ColumnBatch, *, checksummed: bool
) -> None:
    """In a file with digests every column has them, and KV bytes one a chunk.

    The digests of all other columns are compared whole when the column is read.

    Raises:
        SchemaMismatch: digests are not defined for the column's type.
        FileCorrupt: they are missing, or are more or fewer than the chunks.
    """
    if not checksummed:
        return
    if not has_digest(column.array.type):
        raise SchemaMismatch(
            f"a column of type {column.array.type} cannot stand in a file with digests",
            path=source.path,
            column=name,
            hint="write it as a plain string or list column",
        )
    digests = column.digests
    if not isinstance(digests, list) or not all(isinstance(word, str) for word in digests):
        raise corrupt(source, name)
    if pa.types.is_fixed_size_binary(column.array.type):
        num_bytes = len(column.array) * column.array.type.byte_width
        if len(digests) != -(-num_bytes // CHUNK_BYTES):
            raise corrupt(source, name)
