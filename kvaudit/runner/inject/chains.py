"""The slots that a fault may damage: those that a judged sequence holds alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.held_slots import LIVE_STATES
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """The entries of one live sequence behind the last that it shares, or that cannot be judged.

    Fields:
        request_id: the sequence.
        state: what it is to its engine.
        file: which sequences file it is in.
        number: which of that file's sequences it is.
        first_slot: index of the first entry among the file's slots.
        first_position: position of the first entry.
        rows: row of each entry, shape [n], int64.
        tokens: token of each entry, shape [n], int64; -1 = unknown.
    """

    request_id: str
    state: SequenceState | None
    file: int
    number: int
    first_slot: int
    first_position: int
    rows: NDArray[np.int64]
    tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What a fault did, in the engine's numbering.

    Fields:
        slots: slots that are wrong now, ascending.
        request_ids: the requests that it was put into.
    """

    slots: Sequence[int] = ()
    request_ids: Sequence[str] = ()


def damage_of(snapshot: Snapshot, rows: NDArray[np.int64], *chains: Chain) -> Damage:
    """Damage of rows, shape [n], int64, that chains hold."""
    return Damage(
        slots=np.unique(snapshot.slots[rows]).tolist(),
        request_ids=list(dict.fromkeys(chain.request_id for chain in chains)),
    )


def chains_of(snapshot: Snapshot, files: Sequence[Sequences]) -> list[Chain]:
    """The chain of every live sequence; one that holds nothing alone has an empty one."""
    rows = [snapshot.rows_of(part.slots) for part in files]
    held = np.concatenate([np.empty(0, dtype=np.int64), *rows])
    holders = np.bincount(held[held >= 0], minlength=snapshot.num_rows)
    chains = []
    for file, part in enumerate(files):
        usable = (rows[file] >= 0) & ~snapshot.reserved_slots.mask(part.slots)
        usable[usable] = holders[rows[file][usable]] == 1
        for number, state in enumerate(part.states):
            if state in LIVE_STATES:
                chains.append(
                    _chain(snapshot, part, rows[file], usable=usable, place=(file, number))
                )
    return chains


def _chain(
    snapshot: Snapshot,
    part: Sequences,
    rows: NDArray[np.int64],
    *,
    usable: NDArray[np.bool_],
    place: tuple[int, int],
) -> Chain:
    file, number = place
    start, kv_len = int(part.start_positions[number]), int(part.kv_lens[number])
    first, end = part.slot_offsets[number : number + 2].tolist()
    last = min(end, first + max(kv_len - start, 0))
    if snapshot.window is not None:
        first = min(last, max(first, first + kv_len - snapshot.window - start))
    unusable = np.flatnonzero(~usable[first:last])
    own = first + int(unusable[-1]) + 1 if unusable.size else first
    position = start + own - int(part.slot_offsets[number])
    tokens = np.full(last - own, -1, dtype=np.int64)
    known = part.tokens_of(number)[position : position + last - own]
    tokens[: len(known)] = known
    return Chain(
        request_id=part.request_ids[number],
        state=part.states[number],
        file=file,
        number=number,
        first_slot=own,
        first_position=position,
        rows=rows[own:last],
        tokens=tokens,
    )
