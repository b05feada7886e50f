"""What one file says of a few slots: records, owners, plan entries, writes or violations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kvaudit.constants import (
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_REAL_KV_HASH,
    RECORD_TOKEN,
)
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.layout import SlotRanges
from kvaudit.core.plan import PlanDump
from kvaudit.core.recorded_step import Trace
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot
from kvaudit.core.violation import hash_label
from kvaudit.errors import ConfigError
from kvaudit.render.state_facts import ring_rows_of
from kvaudit.render.trace_facts import written_rows

SlotRow = dict[str, Any]


def slot_rows(
    content: Snapshot | Sequences | PlanDump | CanaryState | Layer0Table | Trace,
    slots: SlotRanges,
) -> list[SlotRow]:
    """The rows of a file that concern the slots, each with `slot` first; JSON values only.

    Raises:
        InputError: a row of a trace is not what the format says.
        ConfigError: the file is a table, whose rows are of tokens.
    """
    if isinstance(content, Layer0Table):
        raise ConfigError("a table has rows of tokens, not of slots", hint="leave --slot out")
    if isinstance(content, Snapshot):
        return list(_records(content, slots))
    if isinstance(content, Sequences):
        return list(_owners(content, slots))
    if isinstance(content, CanaryState):
        return list(ring_rows_of(content, slots))
    if isinstance(content, PlanDump):
        return list(_entries(content, slots))
    return list(written_rows(content, slots))


def _records(snapshot: Snapshot, slots: SlotRanges) -> Iterator[SlotRow]:
    """A row a slot and record column; a row a slot when there are no records."""
    page_size = snapshot.page_size
    records = {name: column.read() for name, column in snapshot.canary.items()}
    evidence = {name: column.read() for name, column in snapshot.evidence.items()}
    for row in np.flatnonzero(slots.mask(snapshot.slots)):
        slot = int(snapshot.slots[row])
        place = {"slot": slot, "page": f"{slot // page_size} +{slot % page_size}"}
        seen = {name: _plain(values[row]) for name, values in evidence.items()}
        for name, values in records.items():
            record = [int(word) for word in values[row]]
            yield {
                **place,
                "record": name,
                "token": record[RECORD_TOKEN],
                "position": record[RECORD_POSITION],
                "prev_hash": hash_label(record[RECORD_PREV_HASH]),
                "real_kv_hash": hash_label(record[RECORD_REAL_KV_HASH]),
                **seen,
            }
        if not records:
            yield {**place, **seen}


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def _owners(sequences: Sequences, slots: SlotRanges) -> Iterator[SlotRow]:
    """A row a sequence and position."""
    for sequence_idx, request_id in enumerate(sequences.request_ids):
        tokens = sequences.tokens_of(sequence_idx)
        owned = sequences.slots_of(sequence_idx)
        for place in np.flatnonzero(slots.mask(owned)):
            position = int(sequences.start_positions[sequence_idx] + place)
            yield {
                "slot": int(owned[place]),
                "request": request_id,
                "position": position,
                "token": int(tokens[position]) if position < len(tokens) else None,
                "written": position < int(sequences.kv_lens[sequence_idx]),
            }


def _entries(plan: PlanDump, slots: SlotRanges) -> Iterator[SlotRow]:
    """A row a plan entry."""
    for row, launch in enumerate(plan.launches):
        active = slice(0, len(launch.plan))
        for entry in np.flatnonzero(slots.mask(launch.plan.verify_slot_indices[active])):
            yield {
                "slot": int(launch.plan.verify_slot_indices[entry]),
                "row": row,
                "step": launch.step,
                "entry": int(entry),
                "position": int(launch.plan.verify_expected_positions[entry]),
                "token": int(launch.plan.verify_expected_tokens[entry]),
                "prev_slot": int(launch.plan.verify_prev_slot_indices[entry]),
            }
