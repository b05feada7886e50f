"""Who expects something of a slot: what is judged, and who has it without being judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    CHAIN_ANCHOR,
    NO_EXPECTED_TOKEN,
    PADDING_SLOT,
    PREDECESSOR_UNREACHABLE,
)
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import EntryBlock, EntrySource, Scope, slot_shift_of, to_engine_slots
from kvaudit.core.layout import SlotRanges
from kvaudit.core.planner import SequenceEntries
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.slot_readers import SlotClaim, SlotReader
from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.expectations import Expectations, expectations_of

SEQUENCES: Final = "sequences"
_DISABLED: Final = "its plan is disabled"
_IN_FLIGHT: Final = "in flight: counted, not judged"
_BEFORE_WINDOW: Final = "before the window: let go of"


def claims_on(
    slot: int, pool: AuditedPool, *, slot_hashes: Mapping[str, NDArray[np.uint64]]
) -> Iterator[SlotClaim]:
    """Every claim on a slot: those that are judged, in entry order, then the others.

    Args:
        slot: the slot, in the engine's numbering.
        pool: the pool.
        slot_hashes: slot hash of each row by record column, shape [num_rows] each, uint64.
    """
    expectations = expectations_of(pool, Scope(slots=SlotRanges(((slot, slot),))))
    for source in expectations.sources:
        for block in source.blocks():
            used = block.slot_indices != PADDING_SLOT
            yield from _of_block(
                block.only(used), source, snapshot=pool.snapshot, slot_hashes=slot_hashes
            )
    if expectations.sequences is not None:
        yield from _not_judged(slot, expectations, snapshot=pool.snapshot)


def _of_block(
    block: EntryBlock,
    source: EntrySource,
    *,
    snapshot: Snapshot,
    slot_hashes: Mapping[str, NDArray[np.uint64]],
) -> Iterator[SlotClaim]:
    """The claims of a block whose entries are all on the slot."""
    prev_slots = to_engine_slots(block.prev_slot_indices, slot_shift_of(snapshot))
    names, states = (
        source.request_ids_of(block.entry_indices),
        source.states_of(block.entry_indices),
    )
    for number, (name, state) in enumerate(zip(names, states, strict=True)):
        kernel_prev = int(block.prev_slot_indices[number])
        is_head, reaches = kernel_prev < 0, kernel_prev != PREDECESSOR_UNREACHABLE
        prev_slot = int(prev_slots[number]) if reaches and not is_head else None
        stored = int(block.expected_positions[number])
        token = int(block.expected_tokens[number])
        yield SlotClaim(
            reader=SlotReader(request_id=name, position=stored - snapshot.position_offset),
            source=_source_label(source),
            state=None if state is None else str(state),
            token=token if source.check_expected_token else NO_EXPECTED_TOKEN,
            stored_position=stored,
            prev_slot=prev_slot,
            is_head=is_head,
            prev_hashes={
                buffer: CHAIN_ANCHOR if is_head else _hash_at(prev_slot, hashes, snapshot)
                for buffer, hashes in slot_hashes.items()
            },
            not_judged="" if source.enabled else _DISABLED,
        )


def _hash_at(slot: int | None, slot_hashes: NDArray[np.uint64], snapshot: Snapshot) -> int | None:
    """The slot hash of a slot, shape [num_rows] of them; None where it has no row."""
    if slot is None:
        return None
    row = int(snapshot.rows_of(np.array([slot], dtype=np.int64))[0])
    return None if row < 0 else int(slot_hashes[row])


def _source_label(source: EntrySource) -> str:
    if isinstance(source, SequenceEntries):
        return SEQUENCES
    step = "" if source.step is None else f" of step {source.step}"
    tags = "" if source.tags is None else " " + " ".join(tag.name for tag in source.tags)
    return f"plan{step}{tags}"


def _not_judged(
    slot: int, expectations: Expectations, *, snapshot: Snapshot
) -> Iterator[SlotClaim]:
    """The sequences that have the slot where nothing is judged: past kv_len, in flight, let go of."""
    sequences, entries = expectations.sequences, expectations.sequence_entries
    if sequences is None or entries is None:
        return
    places = np.flatnonzero(sequences.slots == slot)
    owners = np.searchsorted(sequences.slot_offsets, places, side="right") - 1
    positions = places - sequences.slot_offsets[owners] + sequences.start_positions[owners]
    held = entries.held
    for owner, position in zip(owners.tolist(), positions.tolist(), strict=True):
        why = _why_not(owner, position, sequences=sequences, first=int(held.first_positions[owner]))
        if why:
            yield SlotClaim(
                reader=SlotReader(request_id=sequences.request_ids[owner], position=position),
                source=SEQUENCES,
                state=None if (state := sequences.states[owner]) is None else str(state),
                token=NO_EXPECTED_TOKEN,
                stored_position=position + snapshot.position_offset,
                prev_slot=None,
                is_head=False,
                not_judged=why,
            )


def _why_not(owner: int, position: int, *, sequences: Sequences, first: int) -> str:
    """Why a sequence's position is not judged; "" where it is."""
    kv_len = int(sequences.kv_lens[owner])
    if position >= kv_len:
        return f"at or past kv_len {kv_len}: no KV of it is written"
    if sequences.states[owner] is SequenceState.IN_FLIGHT:
        return _IN_FLIGHT
    return _BEFORE_WINDOW if position < first else ""
