"""A Snapshot into its file."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.constants import RECORD_WORDS
from kvaudit.core.column_names import canary_name, digest_name, stamped_name
from kvaudit.core.kv_column import KvColumn, RowColumn
from kvaudit.core.snapshot import DigestGrain, Snapshot
from kvaudit.errors import SchemaMismatch, SnapshotInconsistent
from kvaudit.formats.arrow_writer import fixed_width_array, integers, text_array, write_arrow
from kvaudit.formats.page_grain import PAGE_SLOTS_COLUMN, PageRows, check_page_columns
from kvaudit.formats.schema import (
    EVIDENCE_TYPES,
    INT32,
    INT64,
    RECORD,
    SLOT_COLUMN,
    STRING,
    FileKind,
    column_family,
)

# Columns that are gathered as they are written come in batches of about this size.
BATCH_BYTES: Final = 256 << 20


def write_snapshot(
    path: str | os.PathLike[str], snapshot: Snapshot, *, batch_rows: int | None = None
) -> None:
    """Write a snapshot with its digests, complete or not at all.

    KV bytes are pulled a batch at a time, so a column may gather them from an engine's pool then.

    Args:
        path: the file; an existing one is replaced. Mode 0600: a dump holds prompts in clear.
        snapshot: what to write.
        batch_rows: rows of a record batch; None = one batch if all KV bytes are in memory or
            mapped, else batches of about BATCH_BYTES.

    Raises:
        FileUnwritable: the system refused.
        SchemaMismatch: a column's name, or a metadata value, is not one of FORMAT.md.
        ValuesInvalid: a value is none that its column can hold.
        SnapshotInconsistent: a column has not one value a row.
    """
    rows = _row_columns(snapshot)
    num_rows = len(rows[0][1])
    fields = [field for field, _ in rows] + [_kv_field(column) for column in snapshot.kv.values()]
    for field in fields:
        known = field.name in (SLOT_COLUMN, PAGE_SLOTS_COLUMN, *EVIDENCE_TYPES)
        if not known and column_family(field.name) is None:
            raise SchemaMismatch("the column's name is not one of the format", column=field.name)
    write_arrow(
        path,
        kind=FileKind.SNAPSHOT,
        fields=fields,
        key=snapshot.key,
        metadata={**snapshot.metadata, **_metadata(snapshot)},
        num_rows=num_rows,
        batches=_batches(
            snapshot.kv.values(),
            rows,
            num_rows=num_rows,
            batch_rows=batch_rows or _batch_rows(snapshot, rows),
        ),
    )


def _field(name: str, arrow_type: pa.DataType) -> pa.Field:
    return pa.field(name, arrow_type, nullable=arrow_type == STRING)


def _kv_field(column: KvColumn) -> pa.Field:
    metadata = {"read_bytes": str(column.read_bytes)}
    if column.dtype:
        metadata["dtype"] = column.dtype
    arrow_type = pa.binary(column.row_bytes)
    return pa.field(column.name, arrow_type, nullable=False, metadata=metadata)


def _row_columns(snapshot: Snapshot) -> list[tuple[pa.Field, NDArray[Any]]]:
    """The field and the values of every column but the KV bytes."""
    pages = PageRows(snapshot) if snapshot.digest_grain is DigestGrain.PAGE else None
    slots = snapshot.slots if pages is None else pages.first_slots
    columns: list[tuple[pa.Field, NDArray[Any]]] = [(_field(SLOT_COLUMN, INT64), slots)]

    def add(name: str, arrow_type: pa.DataType, column: RowColumn) -> None:
        values = column.read() if pages is None else pages.values_of(name, column)
        wanted = (len(slots), RECORD_WORDS) if arrow_type == RECORD else (len(slots),)
        if values.shape != wanted:
            raise SnapshotInconsistent(
                f"the values have shape {values.shape}, not {wanted}", column=name
            )
        columns.append((_field(name, arrow_type), values))

    for name, column in snapshot.canary.items():
        add(canary_name(name), RECORD, column)
    for name, column in snapshot.stamped.items():
        add(stamped_name(name), INT64, column)
    for name, column in snapshot.digests.items():
        add(digest_name(name), INT64, column)
    for name, column in snapshot.evidence.items():
        add(name, EVIDENCE_TYPES.get(name, INT64), column)
    if pages is not None:
        columns.append(pages.page_slots())
        check_page_columns([field.name for field, _ in columns], snapshot.path)
    return columns


def _batch_rows(snapshot: Snapshot, rows: list[tuple[pa.Field, NDArray[Any]]]) -> int:
    if all(column.is_resident for column in snapshot.kv.values()):
        return max(1, snapshot.num_rows)
    row_bytes = sum(column.row_bytes for column in snapshot.kv.values())
    row_bytes += sum(values.itemsize * values[:1].size for _, values in rows)
    return max(1, BATCH_BYTES // max(1, row_bytes))


def _batches(
    kv: Collection[KvColumn],
    rows: list[tuple[pa.Field, NDArray[Any]]],
    *,
    num_rows: int,
    batch_rows: int,
) -> Iterator[list[pa.Array]]:
    for first in range(0, num_rows, batch_rows):
        last = min(first + batch_rows, num_rows)
        columns = [_array(field, values[first:last], first_row=first) for field, values in rows]
        for column in kv:
            data = column.read_rows(first, last)
            if data.shape != (last - first, column.row_bytes):
                raise SnapshotInconsistent(
                    f"the bytes of rows {first} to {last} have shape {data.shape}",
                    column=column.name,
                )
            columns.append(fixed_width_array(data, pa.binary(column.row_bytes)))
        yield columns


def _array(field: pa.Field, values: NDArray[Any], *, first_row: int) -> pa.Array:
    if field.type == STRING:
        return text_array(field.name, values.tolist(), first_row=first_row)
    if pa.types.is_fixed_size_binary(field.type):
        return fixed_width_array(values, field.type)
    dtype = np.int32 if field.type == INT32 else np.int64
    # A digest is computed as uint64 and stored as the same 64 bits.
    as_stored = values.view(np.int64) if values.dtype == np.uint64 else values
    return fixed_width_array(integers(field.name, as_stored, dtype=dtype), field.type)


def _metadata(snapshot: Snapshot) -> dict[str, str]:
    metadata = {
        "page_size": str(snapshot.page_size),
        "num_slots": str(snapshot.num_slots),
        "reserved_slots": str(snapshot.reserved_slots),
        "at": str(snapshot.at),
        "real_kv_hash_mode": snapshot.real_kv_hash_mode.name.lower(),
        "stamped_columns": json.dumps(snapshot.stamped_columns, separators=(",", ":")),
        "token_offset": str(snapshot.token_offset),
        "position_offset": str(snapshot.position_offset),
    }
    if snapshot.digest_grain is not DigestGrain.SLOT:
        metadata["digest_grain"] = str(snapshot.digest_grain)
    if snapshot.window is not None:
        metadata["window"] = str(snapshot.window)
    return metadata
