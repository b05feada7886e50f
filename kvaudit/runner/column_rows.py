"""Column differences as rows of the report: one a slot, with everyone who reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_EXPECTED_TOKEN, FailReason
from kvaudit.core.entries import EntrySource, slot_shift_of, to_kernel_slots
from kvaudit.core.snapshot import DigestGrain, Snapshot
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
    readers = _readers(sources, slots, snapshot=snapshot)
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
    sources: Sequence[EntrySource], slots: NDArray[np.int64], *, snapshot: Snapshot
) -> dict[int, _Readers]:
    """Who reads each of the slots, or where digests are of pages, any slot of its page."""
    by_slot = {slot: _Readers() for slot in slots.tolist()}
    grain = snapshot.page_size if snapshot.digest_grain is DigestGrain.PAGE else 1
    # The shift between the numberings is whole pages.
    places = to_kernel_slots(slots, slot_shift_of(snapshot)) // grain
    by_place = dict(zip(places.tolist(), by_slot.values(), strict=True))
    for source in sources:
        if not source.enabled:
            continue
        for block in source.blocks():
            read = block.slot_indices // grain
            found = np.flatnonzero(np.isin(read, places))
            names = source.request_ids_of(block.entry_indices[found])
            for entry, name in zip(found.tolist(), names, strict=True):
                reader = by_place[int(read[entry])]
                if reader.position is None:
                    reader.position = int(block.expected_positions[entry])
                    reader.token = NO_EXPECTED_TOKEN
                    if source.check_expected_token:
                        reader.token = int(block.expected_tokens[entry])
                if name is not None:
                    reader.request_ids.append(name)
    return by_slot
