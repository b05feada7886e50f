"""Record batches into an Arrow IPC file with its digests."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ValuesInvalid
from kvaudit.formats.atomic_file import atomic_file
from kvaudit.formats.digests import batch_digests, encode_digests, schema_digest
from kvaudit.formats.limits import MAX_STRING_BYTES
from kvaudit.formats.metadata_values import check_metadata, is_text
from kvaudit.formats.pairing_key import key_metadata
from kvaudit.formats.schema import (
    DIGESTS_KEY,
    FORMAT_KEY,
    FORMAT_VERSION,
    KEY_PREFIX,
    KIND_KEY,
    STRING,
    FileKind,
)

# Offsets of a list are int32; past them a large_list is written.
MAX_SMALL_LIST_VALUES: Final = 2**31 - 1


def fixed_width_array(values: NDArray[Any], arrow_type: pa.DataType) -> pa.Array:
    """An int, fixed-size-binary or record array over the memory of a numpy array.

    Args:
        values: shape [rows] of ints, [rows, 4] int64 for records, [rows, row_bytes] uint8.
        arrow_type: the column's type.
    """
    contiguous = np.ascontiguousarray(values)
    buffer = pa.py_buffer(contiguous)
    num_rows = len(contiguous)
    if pa.types.is_fixed_size_list(arrow_type):
        items = pa.Array.from_buffers(
            arrow_type.value_type, num_rows * arrow_type.list_size, [None, buffer]
        )
        return pa.Array.from_buffers(arrow_type, num_rows, [None], children=[items])
    return pa.Array.from_buffers(arrow_type, num_rows, [None, buffer])


def integers(
    column: str, values: NDArray[Any], *, dtype: type[np.signedinteger[Any]] = np.int64
) -> NDArray[Any]:
    """The values as a column stores them, shape as given, of dtype; copied only to be widened.

    Raises:
        ValuesInvalid: not every number of their type is one of dtype.
    """
    if not np.can_cast(values.dtype, dtype, "safe"):
        raise ValuesInvalid(
            f"the values are {values.dtype}, not {np.dtype(dtype)}",
            column=column,
            hint="give whole numbers",
        )
    return values.astype(dtype, copy=False)


def list_array(
    offsets: NDArray[np.int64],
    values: NDArray[np.int64],
    *,
    is_null: NDArray[np.bool_] | None = None,
) -> pa.Array:
    """A list<int64> array.

    Args:
        offsets: shape [rows + 1], int64.
        values: shape [n], int64.
        is_null: which rows are null, shape [rows], bool; None = no row is.
    """
    items = fixed_width_array(values, pa.int64())
    is_large = len(values) > MAX_SMALL_LIST_VALUES
    lists = pa.LargeListArray if is_large else pa.ListArray
    return lists.from_arrays(
        pa.array(offsets, type=pa.int64() if is_large else pa.int32()),
        items,
        mask=None if is_null is None or not is_null.any() else pa.array(is_null),
    )


def text_array(column: str, texts: Sequence[str | None], *, first_row: int = 0) -> pa.Array:
    """A string array; None is null.

    Args:
        column: the column, for messages.
        texts: the text of each row.
        first_row: the row of the file that texts[0] is.

    Raises:
        ValuesInvalid: a text is none, is not valid Unicode, or is longer than readers accept.
    """
    for row, text in enumerate(texts, start=first_row):
        if text is not None:
            _check_text(text, column, row)
    return pa.array(texts, type=STRING)


def text_list_array(
    column: str, lists: Sequence[Sequence[str] | None], *, first_row: int = 0
) -> pa.Array:
    """A list<string> array; None is null.

    Args:
        column: the column, for messages.
        lists: the texts of each row.
        first_row: the row of the file that lists[0] is.

    Raises:
        ValuesInvalid: as for `text_array`.
    """
    for row, texts in enumerate(lists, start=first_row):
        for text in texts or ():
            _check_text(text, column, row)
    return pa.array(
        [None if texts is None else list(texts) for texts in lists], type=pa.list_(STRING)
    )


def _check_text(text: object, column: str, row: int) -> None:
    if not is_text(text):
        raise ValuesInvalid(
            f"{str(text)[:80]!r} is no text",
            column=column,
            row=row,
            hint="give a string without lone surrogates",
        )
    num_bytes = len(str(text).encode())
    if num_bytes > MAX_STRING_BYTES:
        raise ValuesInvalid(
            f"{num_bytes} bytes of text; at most {MAX_STRING_BYTES} are read",
            column=column,
            row=row,
            hint="give a hash of it",
        )


def write_columns(
    path: str | os.PathLike[str],
    *,
    kind: FileKind,
    key: PoolKey,
    metadata: Mapping[str, str],
    columns: Mapping[str, pa.Array],
    nullable: Collection[str],
) -> None:
    """Write one file of one batch, complete or not at all.

    Args:
        path: the file; an existing one is replaced.
        kind: what it holds.
        key: the pairing key.
        metadata: further metadata, as in `write_arrow`.
        columns: its columns by name.
        nullable: those whose rows may be null.

    Raises:
        FileUnwritable: the system refused.
        SchemaMismatch: a metadata value is none that a reader accepts.
    """
    arrays = list(columns.values())
    write_arrow(
        path,
        kind=kind,
        key=key,
        metadata=metadata,
        fields=[
            pa.field(name, array.type, nullable=name in nullable) for name, array in columns.items()
        ],
        num_rows=len(arrays[0]),
        batches=[arrays],
    )


def write_arrow(
    path: str | os.PathLike[str],
    *,
    kind: FileKind,
    key: PoolKey,
    metadata: Mapping[str, str],
    fields: Iterable[pa.Field],
    num_rows: int,
    batches: Iterable[list[pa.Array]],
) -> None:
    """Write one file, complete or not at all.

    Args:
        path: the file; an existing one is replaced.
        kind: what it holds.
        key: the pairing key; its parts win over metadata of the same name.
        metadata: further metadata, without the `kvaudit.` prefix.
        fields: the Arrow fields.
        num_rows: rows of all batches together.
        batches: the columns of each record batch, in the order of the fields.

    Raises:
        FileUnwritable: the system refused.
        SchemaMismatch: a metadata value is none that a reader accepts.
    """
    own = {**metadata, **key_metadata(key)}
    check_metadata(own, path=os.fspath(path))
    bare = pa.schema(list(fields))
    full = {KEY_PREFIX + name: value for name, value in own.items()}
    full |= {KIND_KEY: str(kind), FORMAT_KEY: FORMAT_VERSION}
    full[DIGESTS_KEY] = encode_digests({"schema": schema_digest(bare, full), "rows": num_rows})
    schema = bare.with_metadata(full)
    options = pa.ipc.IpcWriteOptions(compression=None)
    with atomic_file(path) as file, pa.ipc.new_file(file, schema, options=options) as writer:
        for columns in batches:
            batch = pa.record_batch(columns, schema=schema)
            writer.write_batch(
                batch, custom_metadata={DIGESTS_KEY: encode_digests(batch_digests(batch))}
            )
