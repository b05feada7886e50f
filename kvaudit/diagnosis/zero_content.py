"""Slots of which nothing arrived: neither a record nor bytes, or a record and no bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.column_names import column_layer
from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.diagnosis.byte_view import REAL, ByteView, Channel
from kvaudit.diagnosis.record_missing import rows_with_content
from kvaudit.diagnosis.row_sets import among, union_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ZeroRows:
    """Rows that failed, since what they hold is zero.

    Fields:
        without_record: rows with neither record nor bytes, shape [n], int64, ascending.
        with_record: rows with a record and no bytes in some columns, shape [k], int64, ascending.
        columns: the columns that are zero in rows with a record, each with its rows; a side buffer
            counts with the columns of layers that are zero in the same rows.
    """

    without_record: NDArray[np.int64]
    with_record: NDArray[np.int64]
    columns: dict[str, NDArray[np.int64]]


def zero_rows(view: ByteView) -> ZeroRows:
    """What is zero of what failed; zero bytes hash to 0, so digests tell as well as bytes."""
    columns: dict[str, NDArray[np.int64]] = {}
    sides: dict[str, NDArray[np.int64]] = {}
    for channel in view.channels():
        if not channel.is_column:
            _add_combined(view, channel, columns)
        else:
            kind = sides if column_layer(channel.name) is None else columns
            _add(kind, channel.name, channel.rows[channel.held == 0])
    with_record = union_of([*columns.values()])
    for name, rows in sides.items():
        _add(columns, name, rows[among(rows, with_record)])
    return ZeroRows(
        without_record=_rows_without_record(view), with_record=with_record, columns=columns
    )


def _add(columns: dict[str, NDArray[np.int64]], column: str, rows: NDArray[np.int64]) -> None:
    if rows.size:
        known = columns.get(column, np.empty(0, dtype=np.int64))
        columns[column] = np.union1d(known, rows)


def _add_combined(view: ByteView, channel: Channel, columns: dict[str, NDArray[np.int64]]) -> None:
    """The zero columns of a combined hash; one with its own stamp speaks for itself."""
    for column in view.sources_of(view.half_of(channel)):
        if column not in view.evidence.differing:
            hashes = view.content.source_hashes(column, channel.rows)
            if hashes is not None:
                _add(columns, column, channel.rows[hashes == 0])


def _rows_without_record(view: ByteView) -> NDArray[np.int64]:
    found = [np.empty(0, dtype=np.int64)]
    for records in view.views:
        rows = records.rows.rows[records.with_open(RECORD_REASONS | REAL)]
        rows = np.unique(rows[rows >= 0])
        found.append(rows[(records.records[rows] == 0).all(axis=1)])
    rows = np.unique(np.concatenate(found))
    holds_kv = rows_with_content(view.evidence, rows) if rows.size else None
    return rows[:0] if holds_kv is None else rows[~holds_kv]
