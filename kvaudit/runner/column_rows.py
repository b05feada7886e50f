"""Column differences as rows of the report: one a slot, with everyone who reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kvaudit.constants import NO_EXPECTED_TOKEN, FailReason
from kvaudit.core.entries import EntrySource, slot_shift_of, to_kernel_slots
from kvaudit.core.snapshot import Snapshot
from kvaudit.core.violation import Violation
from kvaudit.runner.bytes_pass import BytesResult


@dataclass(slots=True, kw_only=True)
class _Readers:
    """Who reads a slot: its requests in entry order, and what the first of them expects there."""

    request_ids: list[str] = field(default_factory=list)
    position: int | None = None
    token: int | None = None


def column_violations(
    result: BytesResult,
    snapshot: Snapshot,
    *,
    sources: Sequence[EntrySource],
    max_rows: int,
) -> list[Violation]:
    """The rows of the first max_rows differing slots."""
    rows = np.flatnonzero(result.differing_rows)[:max_rows]
    if not rows.size:
        return []
    slots = snapshot.slots[rows]
    readers = _readers(sources, slots.tolist(), slot_shift=slot_shift_of(snapshot))
    return [
        Violation(
            tag=None,
            key=snapshot.key,
            entry=None,
            slot=slot,
            expected_position=readers[slot].position,
            expected_token=readers[slot].token,
            columns=columns,
            reasons=FailReason.COLUMN_DIGEST_MISMATCH,
            request_ids=tuple(dict.fromkeys(readers[slot].request_ids)),
            step=snapshot.key.step,
        )
        for slot, columns in zip(slots.tolist(), result.columns_of(rows), strict=True)
    ]


def _readers(
    sources: Sequence[EntrySource], slots: list[int], *, slot_shift: int
) -> dict[int, _Readers]:
    """Who reads each of the slots."""
    readers = {slot: _Readers() for slot in slots}
    kernel_slots = to_kernel_slots(np.array(slots, dtype=np.int64), slot_shift)
    by_kernel_slot = dict(zip(kernel_slots.tolist(), slots, strict=True))
    for source in sources:
        if not source.enabled:
            continue
        for block in source.blocks():
            found = np.flatnonzero(np.isin(block.slot_indices, kernel_slots))
            names = source.request_ids_of(block.entry_indices[found])
            for entry, name in zip(found.tolist(), names, strict=True):
                reader = readers[by_kernel_slot[int(block.slot_indices[entry])]]
                if reader.position is None:
                    reader.position = int(block.expected_positions[entry])
                    reader.token = NO_EXPECTED_TOKEN
                    if source.check_expected_token:
                        reader.token = int(block.expected_tokens[entry])
                if name is not None:
                    reader.request_ids.append(name)
    return readers
