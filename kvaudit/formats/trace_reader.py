"""A plan file as the trace of a run: its rows as `RecordedStep`s, a record batch at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kvaudit.core.plan import PlanDump
from kvaudit.core.recorded_step import RecordedStep, TraceExtent
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import SchemaMismatch
from kvaudit.formats.arrow_file import ArrowFile, open_arrow
from kvaudit.formats.columns import check_column
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.plan_reader import whole_parts
from kvaudit.formats.reader import Content, read_file
from kvaudit.formats.rows import Rows, check_row_count
from kvaudit.formats.schema import (
    BATCH_LISTS,
    EDIT_LISTS,
    PLAN_NULLABLE,
    PLAN_OPTIONAL,
    PLAN_REQUIRED,
    TRACE_COLUMNS,
    FileKind,
)
from kvaudit.formats.trace_rows import check_lists, recorded_steps

_EXTENT_COLUMNS: Final = ("step", *BATCH_LISTS, *EDIT_LISTS)
_NULLABLE: Final = PLAN_NULLABLE | frozenset(TRACE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileTrace:
    """A Trace of a file. What its rows hold is checked as they are walked.

    Fields:
        file: the open file.
        columns: the columns of the format that it has.
        key: the pairing key.
        extent: how large it is.
    """

    file: ArrowFile
    columns: Sequence[str]
    key: PoolKey
    extent: TraceExtent

    @property
    def path(self) -> str:
        """The file as the user wrote it."""
        return self.file.path

    def steps(self) -> Iterator[RecordedStep]:
        """All rows in order; each call walks them anew.

        Raises:
            FileUnreadable: the file shrank.
            NotArrow, FileCorrupt, ValuesInvalid, LimitExceeded: a row is not what FORMAT.md says.
        """
        previous_step: int | None = None
        for rows in _batches(self.file, self.columns):
            for recorded in recorded_steps(rows, previous_step=previous_step):
                yield recorded
                previous_step = recorded.step


def open_trace(path: str | os.PathLike[str]) -> FileTrace:
    """Open a plan file as a trace, and measure it.

    Raises:
        InputError: it is no plan file, or its steps, batches or edits are not what FORMAT.md says.
    """
    file = open_arrow(os.fspath(path))
    if file.kind != FileKind.PLAN:
        raise SchemaMismatch(
            f"it is a {file.kind} file, not a plan",
            path=file.path,
            hint="give the .plan.arrow file of a recorded run",
        )
    check_row_count(file)
    columns = file.check_types(PLAN_REQUIRED, {**PLAN_OPTIONAL, **TRACE_COLUMNS})
    key, _ = MetadataValues(file.metadata, file.path).pool_key()
    return FileTrace(
        file=file,
        columns=columns,
        key=key,
        extent=_extent(file, [name for name in _EXTENT_COLUMNS if name in columns]),
    )


def read_file_or_trace(path: str | os.PathLike[str]) -> Content | FileTrace:
    """Read one file as `read_file` does; a plan with rows to derive is opened as a trace.

    Raises:
        InputError: one of its subclasses, naming file, column and row.
    """
    content = read_file(path)
    is_trace = isinstance(content, PlanDump) and content.num_derived > 0
    return open_trace(path) if is_trace else content


def _batches(file: ArrowFile, columns: Sequence[str]) -> Iterator[Rows]:
    """The columns of each record batch, proven."""
    for first_row, batch in file.walk_columns(columns, nullable=_NULLABLE):
        for name, column in batch.items():
            check_column(file.source, name, column)
        yield Rows(
            file.path,
            num_rows=len(batch["step"].array),
            batches={name: [column] for name, column in batch.items()},
            first_row=first_row,
        )


def _extent(file: ArrowFile, columns: Sequence[str]) -> TraceExtent:
    """One pass over the batches and the edits alone."""
    first_step = last_step = None
    last_request_row = max_len = max_requests = max_verify_entries = 0
    for rows in _batches(file, columns):
        steps = rows.integers("step", np.int64)
        if not rows.num_rows:
            continue
        first_step = int(steps[0]) if first_step is None else first_step
        last_step = int(steps[-1])
        whole_parts(rows, BATCH_LISTS)
        lists = {name: rows.integer_lists(name) for name in (*BATCH_LISTS, *EDIT_LISTS)}
        check_lists(rows, lists, parts=(BATCH_LISTS, EDIT_LISTS))
        batch_offsets = lists["request_index"].offsets
        prefix_ends = np.concatenate([[0], np.cumsum(lists["prefix_lens"].values)])
        for name in ("request_index", "table_request_index"):
            last_request_row = max(last_request_row, int(lists[name].values.max(initial=0)))
        for first, length in (BATCH_LISTS[1:], EDIT_LISTS[1:]):
            ends = lists[first].values + lists[length].values
            max_len = max(max_len, int(ends.max(initial=0)))
        max_requests = max(max_requests, int(np.diff(batch_offsets).max(initial=0)))
        entries = prefix_ends[batch_offsets[1:]] - prefix_ends[batch_offsets[:-1]]
        max_verify_entries = max(max_verify_entries, int(entries.max(initial=0)))
    return TraceExtent(
        num_rows=file.num_rows,
        first_step=first_step,
        last_step=last_step,
        num_request_rows=last_request_row + 1,
        max_len=max_len,
        max_requests=max_requests,
        max_verify_entries=max_verify_entries,
    )
