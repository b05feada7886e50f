"""What a recorded run did, as named values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from kvaudit.constants import LaunchTag
from kvaudit.core.layout import SlotRanges
from kvaudit.core.plan import PlannedWrite
from kvaudit.core.recorded_step import RecordedStep, Trace
from kvaudit.render.labels import count_label


def trace_facts(trace: Trace) -> dict[str, Any]:
    """Steps, requests and writes of a trace, and its launches by tag; JSON values only.

    Raises:
        InputError: a row is not what the format says.
    """
    requests: set[str] = set()
    launches: Counter[LaunchTag] = Counter()
    counts: Counter[str] = Counter()
    for recorded in trace.steps():
        launches.update(recorded.tags or ())
        counts += _counts(recorded)
        if recorded.write is not None:
            requests.update(recorded.write.request_ids or ())
    extent = trace.extent
    return {
        "file": trace.path,
        "kind": "plan",
        "key": trace.key.given(),
        "rows": extent.num_rows,
        "steps": "none" if extent.num_rows == 0 else f"{extent.first_step}-{extent.last_step}",
        "steps_with_writes": counts["steps_with_writes"],
        "requests": len(requests),
        "largest_batch": extent.max_requests,
        "longest_request": count_label(extent.max_len, "position"),
        "writes": counts["writes"],
        "copies": counts["copies"],
        "table_edits": counts["table_edits"],
        "freed": counts["freed"],
        "verify_plans": counts["verify_plans"],
        "launches": {tag.name: count_label(launches[tag], "step") for tag in sorted(launches)},
    }


def written_rows(trace: Trace, slots: SlotRanges) -> Iterator[dict[str, Any]]:
    """A row a copy to one of these slots and a row a write of one, in the order of the trace.

    Raises:
        InputError: a row is not what the format says.
    """
    for recorded in trace.steps():
        for copied in np.flatnonzero(slots.mask(recorded.copies.dst)):
            yield {
                "slot": int(recorded.copies.dst[copied]),
                "step": recorded.step,
                "copied_from": int(recorded.copies.src[copied]),
            }
        write = recorded.write
        if write is not None and slots.mask(write.out_cache_loc).any():
            yield from _stored_rows(recorded.step, write, slots)


def _stored_rows(step: int, write: PlannedWrite, slots: SlotRanges) -> Iterator[dict[str, Any]]:
    for request_idx in range(len(write.plan)):
        entries = write.entries_of(request_idx)
        for entry in np.flatnonzero(slots.mask(write.out_cache_loc[entries])) + entries.start:
            yield {
                "slot": int(write.out_cache_loc[entry]),
                "step": step,
                "request": None if write.request_ids is None else write.request_ids[request_idx],
                "position": int(write.positions[entry]),
                "token": int(write.input_ids[entry]),
            }


def _counts(recorded: RecordedStep) -> Counter[str]:
    counts = Counter(
        copies=len(recorded.copies.src),
        table_edits=len(recorded.edits.request_index),
        freed=len(recorded.freed.request_index),
        verify_plans=recorded.verify is not None,
    )
    if recorded.write is not None:
        counts["writes"] = _num_stored(recorded.write)
        counts["steps_with_writes"] = 1
    return counts


def _num_stored(write: PlannedWrite) -> int:
    """Entries with a slot, of all valid requests."""
    parts = (write.out_cache_loc[write.entries_of(idx)] for idx in range(len(write.plan)))
    return sum(int(np.count_nonzero(slots >= 0)) for slots in parts)
