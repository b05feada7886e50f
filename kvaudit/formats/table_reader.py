"""A table file as a `Layer0Table`: its rows stay in the map."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.core.layer0_table import Layer0Table, TableSource
from kvaudit.errors import SchemaMismatch
from kvaudit.formats.arrow_file import ArrowFile
from kvaudit.formats.columns import check_column
from kvaudit.formats.digests import value_bytes
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.rows import RowReader
from kvaudit.formats.schema import TABLE_COUNTS, TABLE_REQUIRED, TABLE_ROWS


def read_table(file: ArrowFile) -> tuple[Layer0Table, dict[str, str | int], list[str]]:
    """The table, the given parts of its pairing key, and notes for the report.

    Raises:
        SchemaMismatch: a column or key is missing, malformed or of another type.
        ValuesInvalid: a null, tokens out of order, or rows that do not fit the heads.
        LimitExceeded: too many rows.
        FileCorrupt: a digest differs.
    """
    rows = RowReader(file, TABLE_REQUIRED, TABLE_COUNTS, unread=TABLE_ROWS)
    metadata = MetadataValues(file.metadata, file.path)
    key, given = metadata.pool_key()
    head_dim = metadata.required_number("head_dim")
    counts = {
        name: rows.integers(name, np.int64) if rows.has(name) else None for name in TABLE_COUNTS
    }
    k0, v0 = (_binary(file, name) for name in TABLE_ROWS)
    table = Layer0Table(
        path=file.path,
        key=key,
        tokens=rows.integers("token", np.int64),
        k0=k0,
        v0=v0,
        dtype=metadata.text("dtype") or "",
        num_heads=metadata.required_number("num_heads"),
        head_dim=head_dim,
        v_head_dim=metadata.number("v_head_dim") or (0 if v0 is None else head_dim),
        rope=metadata.rope(),
        model=metadata.text("model") or "",
        source=metadata.word("source", TableSource.LEARNT),
        note=metadata.text("note") or "",
        **counts,
    )
    return table, given, rows.notes


def _binary(file: ArrowFile, name: str) -> NDArray[np.uint8] | None:
    """A column of rows, shape [num_rows, row_bytes], uint8, read-only; None when it is absent.

    A file of one batch is not copied.
    """
    found = file.column_type(name)
    if found is None:
        return None
    if not pa.types.is_fixed_size_binary(found) or not found.byte_width:
        raise SchemaMismatch(
            f"its type is {found}, not fixed_size_binary",
            path=file.path,
            column=name,
            hint="write the bytes of a token's row",
        )
    parts = []
    for batch in file.read_columns([name])[name]:
        check_column(file.source, name, batch)
        parts.append(value_bytes(batch.array).reshape(-1, found.byte_width))
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate([np.empty((0, found.byte_width), dtype=np.uint8), *parts])
    joined.setflags(write=False)
    return joined
