"""The slot that a user means: its number, or a request and a position."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.held_slots import HeldSlots
from kvaudit.core.planner import window_of
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import ConfigError
from kvaudit.runner.audit import check_requests
from kvaudit.runner.expectations import Expectations

_SLOT: Final = re.compile(r"[0-9]{1,18}")
# A plan may hold any position.
_POSITION: Final = re.compile(r"-?[0-9]{1,18}")
_ALL_STATES: Final = (None, *SequenceState)
# Slots that an error message lists.
_MAX_NAMED: Final = 8


def slot_meant(target: str, *, snapshot: Snapshot, expectations: Expectations) -> int:
    """The slot that `873` or `tale@9` means, in the engine's numbering; the snapshot has its row.

    Args:
        target: a slot, or a request and a position of it.
        snapshot: the pool.
        expectations: what says which slots a request has.

    Raises:
        ConfigError: the words are neither, there is no such request or position, several slots are
            meant, or the pool or the snapshot has no such slot.
    """
    if _SLOT.fullmatch(target):
        slot = int(target)
        _check_slot(slot, f"slot {slot}", snapshot=snapshot)
        return slot
    name, at, text = target.rpartition("@")
    if not at or not _POSITION.fullmatch(text):
        hint = "write a slot as 873, or a request and its position as tale@9"
        if target in expectations.request_ids():
            hint = f"add a position: {_positions_label(target, snapshot, expectations)}"
        raise ConfigError(f"{target!r} is neither a slot nor REQUEST@POS", hint=hint)
    check_requests([name], [expectations])
    slot = _slot_at(name, int(text), snapshot=snapshot, expectations=expectations)
    _check_slot(
        slot, f"slot {slot}, which request {name!r} has at position {text},", snapshot=snapshot
    )
    return slot


def _slot_at(name: str, position: int, *, snapshot: Snapshot, expectations: Expectations) -> int:
    """The one slot that a request has at a position."""
    positions, slots = _slots_of_request(name, snapshot, expectations)
    found = np.unique(slots[positions == position]).tolist()
    if not found:
        raise ConfigError(
            f"request {name!r} has no KV at position {position}",
            hint=_positions_label(name, snapshot, expectations),
        )
    if len(found) > 1:
        named = ", ".join(map(str, found[:_MAX_NAMED]))
        raise ConfigError(
            f"request {name!r} has position {position} in {len(found)} slots: {named}",
            hint="name one of the slots",
        )
    return int(found[0])


def _slots_of_request(
    name: str, snapshot: Snapshot, expectations: Expectations
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every position of a request with its slot, shape [n] both, int64."""
    positions, slots = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    if expectations.sequences is not None:
        sequences = expectations.sequences
        held = HeldSlots(sequences=sequences, states=_ALL_STATES, window=window_of(snapshot))
        for number, request_id in enumerate(sequences.request_ids):
            if request_id == name:
                part = slice(int(held.offsets[number]), int(held.offsets[number + 1]))
                slots.append(held.slots[part])
                positions.append(held.first_positions[number] + np.arange(part.stop - part.start))
    for source in expectations.launch_entries:
        plan, names = source.launch.plan, source.launch.request_ids
        if names is not None:
            entries = [entry for entry in range(len(plan)) if names[entry] == name]
            slots.append(plan.verify_slot_indices[entries])
            positions.append(plan.verify_expected_positions[entries] - snapshot.position_offset)
    return np.concatenate(positions), np.concatenate(slots)


def _positions_label(name: str, snapshot: Snapshot, expectations: Expectations) -> str:
    """Which positions a request has, for a hint."""
    positions, _ = _slots_of_request(name, snapshot, expectations)
    if not positions.size:
        return f"request {name!r} has KV nowhere in this pool"
    first, last = int(positions.min()), int(positions.max())
    range_label = f"position {first}" if first == last else f"positions {first} to {last}"
    return f"it has KV at {range_label}: write {name}@{first}"


def _check_slot(slot: int, label: str, *, snapshot: Snapshot) -> None:
    """Refuse a slot that the pool or the snapshot does not have."""
    if not 0 <= slot < snapshot.num_slots:
        raise ConfigError(
            f"{label} is outside the pool, which has slots 0-{snapshot.num_slots - 1}",
            hint="a slot's number is page x page_size + offset; of a request with such a slot "
            "kvaudit verify says more (KV102)",
        )
    if snapshot.rows_of(np.array([slot], dtype=np.int64))[0] < 0:
        hint = "the snapshot has no slot at all"
        if snapshot.num_rows:
            place = int(np.searchsorted(snapshot.slots, slot))
            near = snapshot.slots[max(0, place - 1) : place + 1].tolist()
            hint = f"it has {snapshot.num_rows:,} of the pool's slots, next to it {_joined(near)}"
        raise ConfigError(f"{label} is not in the snapshot", hint=hint)


def _joined(slots: list[int]) -> str:
    return " and ".join(map(str, slots))
