"""The columns of plans and traces, from launches and steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.plan import PlannedLaunch
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.formats.arrow_writer import list_array, text_list_array
from kvaudit.formats.schema import (
    BATCH_LISTS,
    BOOL,
    EXPECTED_LISTS,
    INT32,
    PLAN_NULLABLE,
    PLAN_OPTIONAL,
    PLAN_REQUIRED,
    TRACE_COLUMNS,
    VERIFY_LISTS,
    WRITE_LISTS,
)

_NO_VALUES: Final = np.empty(0, dtype=np.int64)
_TYPES: Final[dict[str, Any]] = {
    **PLAN_REQUIRED,
    **{name: arrow_type for name, arrow_type in PLAN_OPTIONAL.items() if name != "tag"},
    **TRACE_COLUMNS,
}
TRACE_SCHEMA: Final = pa.schema(
    [
        pa.field(name, arrow_type, nullable=name in PLAN_NULLABLE or name in TRACE_COLUMNS)
        for name, arrow_type in _TYPES.items()
    ]
)


def num_values(recorded: RecordedStep) -> int:
    """The numbers that a step takes in a file, near enough to bound a batch."""
    write, batch, verify = recorded.write, recorded.batch, recorded.verify
    return (
        len(recorded.edits.slots)
        + len(recorded.copies.src)
        + (0 if batch is None else len(BATCH_LISTS) * len(batch.request_index))
        + (0 if write is None else len(WRITE_LISTS) * len(write.input_ids))
        + (0 if verify is None else len(VERIFY_LISTS) * verify.plan.capacity)
    )


def trace_arrays(steps: Sequence[RecordedStep], *, first_row: int) -> list[pa.Array]:
    """The columns of a record batch of these steps, in the order of TRACE_SCHEMA.

    Args:
        steps: the steps.
        first_row: the row of the file that the first of them is.

    Raises:
        ValuesInvalid: a request's name is no text.
    """
    columns = {
        "step": pa.array([recorded.step for recorded in steps], type=_TYPES["step"]),
        "tags": tags_array([recorded.tags for recorded in steps]),
        **verify_arrays([recorded.verify for recorded in steps], first_row=first_row),
        **_write_arrays(steps, first_row=first_row),
        **_table_arrays(steps),
    }
    return [columns[name] for name in _TYPES]


def tags_array(tags: Sequence[Sequence[LaunchTag] | None]) -> pa.Array:
    """The launches of each row by name; None is null."""
    names = [None if launches is None else [tag.name for tag in launches] for launches in tags]
    return text_list_array("tags", names)


def verify_arrays(
    launches: Sequence[PlannedLaunch | None], *, first_row: int = 0
) -> dict[str, pa.Array]:
    """The verify half of each row, by column; None is null.

    Raises:
        ValuesInvalid: a request's name is no text.
    """
    plans = [None if launch is None else launch.plan for launch in launches]
    return {
        **{
            name: _lists([None if plan is None else getattr(plan, name) for plan in plans])
            for name in VERIFY_LISTS
        },
        "verify_num_valid": pa.array(
            [None if plan is None else plan.num_valid for plan in plans], INT32
        ),
        "enable": pa.array([None if plan is None else int(plan.enable) for plan in plans], INT32),
        "check_verify_expected_token": pa.array(
            [None if launch is None else launch.check_verify_expected_token for launch in launches],
            BOOL,
        ),
        "verify_request_ids": text_list_array(
            "verify_request_ids",
            [None if launch is None else launch.request_ids for launch in launches],
            first_row=first_row,
        ),
    }


def _write_arrays(steps: Sequence[RecordedStep], *, first_row: int) -> dict[str, pa.Array]:
    writes = [recorded.write for recorded in steps]
    plans = [None if write is None else write.plan for write in writes]
    return {
        **{
            name: _lists([None if plan is None else getattr(plan, name) for plan in plans])
            for name in ("write_offsets", "write_seed_slot_indices")
        },
        **{
            name: _lists([None if write is None else getattr(write, name) for write in writes])
            for name in (*WRITE_LISTS, *EXPECTED_LISTS)
        },
        "write_num_valid_reqs": pa.array(
            [None if plan is None else plan.num_valid_reqs for plan in plans], INT32
        ),
        "enable_write_input_assert": pa.array(
            [None if write is None else write.enable_write_input_assert for write in writes], BOOL
        ),
        "enable_chain_position_assert": pa.array(
            [
                None if write is None else int(write.enable_chain_position_assert)
                for write in writes
            ],
            INT32,
        ),
        "write_request_ids": text_list_array(
            "write_request_ids",
            [None if write is None else write.request_ids for write in writes],
            first_row=first_row,
        ),
    }


def _table_arrays(steps: Sequence[RecordedStep]) -> dict[str, pa.Array]:
    batches = [recorded.batch for recorded in steps]
    changes = {
        "table_request_index": [recorded.edits.request_index for recorded in steps],
        "table_positions": [recorded.edits.positions for recorded in steps],
        "table_lens": [recorded.edits.lens for recorded in steps],
        "table_slots": [recorded.edits.slots for recorded in steps],
        "freed_request_index": [recorded.freed.request_index for recorded in steps],
        "freed_lens": [recorded.freed.lens for recorded in steps],
        "copy_src_slots": [recorded.copies.src for recorded in steps],
        "copy_dst_slots": [recorded.copies.dst for recorded in steps],
    }
    return {
        **{
            name: _lists([None if batch is None else getattr(batch, name) for batch in batches])
            for name in BATCH_LISTS
        },
        # Most steps change nothing.
        **{
            name: _lists([values if values.size else None for values in column])
            for name, column in changes.items()
        },
    }


def _lists(lists: Sequence[NDArray[np.int64] | None]) -> pa.Array:
    """A list<int64> array; None is null."""
    given = [_NO_VALUES if values is None else values for values in lists]
    return list_array(
        np.cumsum([0, *map(len, given)], dtype=np.int64),
        np.concatenate([_NO_VALUES, *given]),
        is_null=np.array([values is None for values in lists], dtype=np.bool_),
    )
