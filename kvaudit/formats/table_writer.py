"""A table of layer-0 rows into its file."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyarrow as pa

from kvaudit.core.layer0_table import Layer0Table
from kvaudit.formats.arrow_writer import fixed_width_array, integers, write_columns
from kvaudit.formats.schema import INT64, TABLE_COUNTS, TABLE_ROWS, FileKind


def write_table(
    path: str | os.PathLike[str],
    table: Layer0Table,
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a table with its digests, complete or not at all.

    Args:
        path: the file; an existing one is replaced. Mode 0600.
        table: what to write.
        metadata: further metadata keys, without the `kvaudit.` prefix.

    Raises:
        FileUnwritable: the system refused.
        SchemaMismatch: a metadata value is none that a reader accepts.
        ValuesInvalid: tokens or counts are something else than whole numbers.
    """
    numbers = {"token": table.tokens}
    for name in TABLE_COUNTS:
        counts = getattr(table, name)
        if counts is not None:
            numbers[name] = counts
    columns = {
        name: fixed_width_array(integers(name, values), INT64) for name, values in numbers.items()
    }
    for name in TABLE_ROWS:
        rows = getattr(table, name)
        if rows is not None:
            columns[name] = fixed_width_array(rows, pa.binary(rows.shape[1]))
    own = {
        "model": table.model,
        "dtype": table.dtype,
        "num_heads": str(table.num_heads),
        "head_dim": str(table.head_dim),
        "v_head_dim": str(table.v_head_dim) if table.v_head_dim else "",
        "rope": "" if table.rope is None else table.rope.to_json(),
        "source": str(table.source),
        "note": table.note,
    }
    write_columns(
        path,
        kind=FileKind.TABLE,
        key=table.key,
        metadata={**(metadata or {}), **{name: text for name, text in own.items() if text}},
        columns=columns,
        nullable=(),
    )
