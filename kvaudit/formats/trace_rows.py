"""One batch of a trace as `RecordedStep`s: lengths and ranges checked, values left to the launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.recorded_step import (
    NO_COPIES,
    NO_EDITS,
    NONE_FREED,
    FreedRequests,
    RecordedBatch,
    RecordedStep,
    SlotCopies,
    TableEdits,
)
from kvaudit.formats.plan_reader import (
    launch_tags,
    planned_launches,
    refuse_uneven,
    whole_parts,
)
from kvaudit.formats.ragged import list_row
from kvaudit.formats.rows import IntegerLists, RowLists, Rows
from kvaudit.formats.schema import (
    BATCH_LISTS,
    COPY_LISTS,
    EDIT_LISTS,
    EDIT_SLOTS,
    FREED_LISTS,
    TRACE_BOUNDS,
)
from kvaudit.formats.write_rows import WriteHalves


def recorded_steps(rows: Rows, *, previous_step: int | None) -> Iterator[RecordedStep]:
    """The rows of a batch as steps.

    Args:
        rows: the batch.
        previous_step: step of the row before them; None at the file's start.

    Raises:
        ValuesInvalid: steps fall, a part is null in part, lists have different lengths, or a
            number is out of its range.
        LimitExceeded: too much text.
    """
    steps = rows.integers("step", np.int64)
    _refuse_falling(rows, steps, previous_step)
    verified = planned_launches(rows)
    tags = launch_tags(rows)
    writes = WriteHalves.of(rows)
    tables = _Tables.of(rows)
    _refuse_crowded(rows, tables, writes)
    for row, step in enumerate(steps.tolist()):
        yield RecordedStep(
            step=step,
            tags=tags[row],
            edits=tables.edits(row),
            freed=tables.freed(row),
            copies=tables.copies(row),
            batch=tables.batch(row),
            write=writes.of_row(row),
            verify=verified[row],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tables:
    """The batches of the steps, and the changes of their tables."""

    is_planned: NDArray[np.bool_]
    batch_sizes: NDArray[np.int64]
    lists: RowLists

    @classmethod
    def of(cls, rows: Rows) -> _Tables:
        """The trace columns, checked."""
        is_planned = whole_parts(rows, BATCH_LISTS)
        names = (*BATCH_LISTS, *EDIT_LISTS, EDIT_SLOTS, *FREED_LISTS, *COPY_LISTS)
        lists = {name: rows.integer_lists(name) for name in names}
        check_lists(rows, lists, parts=(BATCH_LISTS, EDIT_LISTS, FREED_LISTS, COPY_LISTS))
        _refuse_edits(rows, lens=lists["table_lens"], slots=lists[EDIT_SLOTS])
        return cls(
            is_planned=is_planned,
            batch_sizes=np.diff(lists["request_index"].offsets),
            lists=RowLists(lists),
        )

    def batch(self, row: int) -> RecordedBatch | None:
        """The batch of a row; None where it is null."""
        if not self.is_planned[row]:
            return None
        return RecordedBatch(**{name: self.lists.row(name, row) for name in BATCH_LISTS})

    def edits(self, row: int) -> TableEdits:
        """The table edits of a row."""
        if self.lists.is_empty("table_request_index", row):
            return NO_EDITS
        return TableEdits(
            request_index=self.lists.row("table_request_index", row),
            positions=self.lists.row("table_positions", row),
            lens=self.lists.row("table_lens", row),
            slots=self.lists.row(EDIT_SLOTS, row),
        )

    def freed(self, row: int) -> FreedRequests:
        """The requests that a row frees."""
        if self.lists.is_empty("freed_request_index", row):
            return NONE_FREED
        return FreedRequests(
            request_index=self.lists.row("freed_request_index", row),
            lens=self.lists.row("freed_lens", row),
        )

    def copies(self, row: int) -> SlotCopies:
        """The copies of a row."""
        if self.lists.is_empty("copy_src_slots", row):
            return NO_COPIES
        return SlotCopies(
            src=self.lists.row("copy_src_slots", row), dst=self.lists.row("copy_dst_slots", row)
        )


def check_lists(
    rows: Rows, lists: Mapping[str, IntegerLists], *, parts: Iterable[Sequence[str]]
) -> None:
    """Refuse lists of one part that differ in length, and numbers out of `TRACE_BOUNDS`.

    Raises:
        ValuesInvalid: naming the first such row.
    """
    for part in parts:
        refuse_uneven(
            rows,
            {name: lists[name] for name in part},
            hint=f"write {', '.join(part)} with one value each",
        )
        for name in part:
            if name in TRACE_BOUNDS:
                _refuse_out_of_bounds(rows, name, lists[name])


def _refuse_out_of_bounds(rows: Rows, name: str, column: IntegerLists) -> None:
    least, most = TRACE_BOUNDS[name]
    values = column.values
    if not values.size or (values.min() >= least and values.max() <= most):
        return
    value_idx = int(np.argmax((values < least) | (values > most)))
    raise rows.invalid(
        f"it is {values[value_idx]}",
        column=name,
        row=list_row(column.offsets, value_idx),
        hint=f"give numbers from {least} to {most}",
    )


def _refuse_falling(rows: Rows, steps: NDArray[np.int64], previous_step: int | None) -> None:
    before = steps[:1] if previous_step is None else np.array([previous_step], dtype=np.int64)
    falls = np.flatnonzero(steps < np.concatenate([before, steps[:-1]])[: len(steps)])
    if falls.size:
        raise rows.invalid(
            f"step {steps[falls[0]]} follows a later one",
            column="step",
            row=int(falls[0]),
            hint="write the rows of a trace in the order of their steps",
        )


def _refuse_crowded(rows: Rows, tables: _Tables, writes: WriteHalves) -> None:
    """A batch has no more requests than the write plan has seeds."""
    is_crowded = writes.is_given & (tables.batch_sizes > writes.capacities)
    crowded = np.flatnonzero(is_crowded)
    if crowded.size:
        row = int(crowded[0])
        raise rows.invalid(
            f"{tables.batch_sizes[row]} requests for {writes.capacities[row]} seeds",
            column="request_index",
            row=row,
            hint="write a seed for every request of the batch",
        )


def _refuse_edits(rows: Rows, *, lens: IntegerLists, slots: IntegerLists) -> None:
    ends = np.concatenate([[0], np.cumsum(lens.values)])
    set_positions = ends[lens.offsets[1:]] - ends[lens.offsets[:-1]]
    odd = np.flatnonzero(np.diff(slots.offsets) != set_positions)
    if odd.size:
        row = int(odd[0])
        raise rows.invalid(
            f"{np.diff(slots.offsets)[row]} slots for {set_positions[row]} positions",
            column=EDIT_SLOTS,
            row=row,
            hint="write as many slots as table_lens add up to",
        )
