"""Record batches into an Arrow IPC file with its digests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.formats.atomic_file import atomic_file
from kvaudit.formats.digests import batch_digests, encode_digests, schema_digest
from kvaudit.formats.schema import (
    DIGESTS_KEY,
    FORMAT_KEY,
    FORMAT_VERSION,
    KIND_KEY,
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


def list_array(offsets: NDArray[np.int64], values: NDArray[np.int64]) -> pa.Array:
    """A list<int64> array of offsets, shape [rows + 1], int64, and values, shape [n], int64."""
    items = fixed_width_array(values, pa.int64())
    if len(values) <= MAX_SMALL_LIST_VALUES:
        return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), items)
    return pa.LargeListArray.from_arrays(pa.array(offsets, type=pa.int64()), items)


def write_arrow(
    path: str | os.PathLike[str],
    *,
    kind: FileKind,
    fields: Iterable[pa.Field],
    metadata: Mapping[str, str],
    num_rows: int,
    batches: Iterable[list[pa.Array]],
) -> None:
    """Write one file, complete or not at all.

    Args:
        path: the file; an existing one is replaced.
        kind: what it holds.
        fields: the Arrow fields.
        metadata: schema metadata with full names.
        num_rows: rows of all batches together.
        batches: the columns of each record batch, in the order of the fields.

    Raises:
        FileUnwritable: the system refused.
    """
    bare = pa.schema(list(fields))
    full = {**metadata, KIND_KEY: str(kind), FORMAT_KEY: FORMAT_VERSION}
    full[DIGESTS_KEY] = encode_digests({"schema": schema_digest(bare, full), "rows": num_rows})
    schema = bare.with_metadata(full)
    options = pa.ipc.IpcWriteOptions(compression=None)
    with atomic_file(path) as file, pa.ipc.new_file(file, schema, options=options) as writer:
        for columns in batches:
            batch = pa.record_batch(columns, schema=schema)
            writer.write_batch(
                batch, custom_metadata={DIGESTS_KEY: encode_digests(batch_digests(batch))}
            )
