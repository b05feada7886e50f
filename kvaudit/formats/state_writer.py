"""A canary's ring and counters into their file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from kvaudit.constants import LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.formats.arrow_writer import fixed_width_array, integers, write_columns
from kvaudit.formats.schema import INT64, RING_COLUMNS, TAG_COUNTS, FileKind


def write_state(
    path: str | os.PathLike[str],
    state: CanaryState,
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a state with its digests, complete or not at all.

    Args:
        path: the file; an existing one is replaced. Mode 0600: the ring holds tokens.
        state: what to write.
        metadata: further metadata keys, without the `kvaudit.` prefix.

    Raises:
        FileUnwritable: the system refused.
        SchemaMismatch: a metadata value is none that a reader accepts.
        ValuesInvalid: the ring holds something else than whole numbers.
    """
    ring = integers("ring", state.ring)
    write_columns(
        path,
        kind=FileKind.STATE,
        key=state.key,
        metadata={
            **(metadata or {}),
            "violation_write_index": str(state.violation_write_index),
            "ring_capacity": str(state.ring_capacity),
            "active_tags": json.dumps([tag.name for tag in state.active_tags]),
            **{name: _counts_text(getattr(state, name)) for name in TAG_COUNTS},
        },
        columns={
            name: fixed_width_array(ring[:, column_idx], INT64)
            for column_idx, name in enumerate(RING_COLUMNS)
        },
        nullable=(),
    )


def _counts_text(counts: Mapping[LaunchTag, int]) -> str:
    return json.dumps({tag.name: int(counts[tag]) for tag in sorted(counts)})
