"""The sequences of both dumps: where what they say of one request differs."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import UNKNOWN_TOKEN
from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_evidence import TableDifference
from kvaudit.core.sequences import Sequences
from kvaudit.runner.compare.join import RequestJoin
from kvaudit.runner.compare.side import Side

# Differences of one kind that are spelt out; all are counted.
_MAX_SPELT: Final = 100


def compare_tables(
    left: Side, right: Side, join: RequestJoin | None, *, kind: LegKind
) -> tuple[list[TableDifference], int]:
    """Compare what two dumps say of the requests that both name.

    Tokens must be the same wherever both know them. Ranks of one engine must also have the same
    requests, as long in both, on the same slots.

    Returns:
        the first differences, and how many there are.
    """
    if join is None or left.held is None or right.held is None:
        return [], 0
    found, total = _tokens(left, right, join)
    if kind is not LegKind.RANKS:
        return found, total
    for names, is_ours in ((join.left_only, True), (join.right_only, False)):
        total += len(names)
        found += [
            TableDifference(request_id=name, what="request", left=is_ours, right=not is_ours)
            for name in names[:_MAX_SPELT]
        ]
    lengths, num_lengths = _lengths(left.held.sequences, right.held.sequences, join)
    slots, num_slots = _slots(left, right, join)
    return [*found, *lengths, *slots], total + num_lengths + num_slots


def _tokens(left: Side, right: Side, join: RequestJoin) -> tuple[list[TableDifference], int]:
    ours, theirs = (
        _tokens_at(side, elements, join.positions)
        for side, elements in ((left, join.left_elements), (right, join.right_elements))
    )
    known = (ours != UNKNOWN_TOKEN) & (theirs != UNKNOWN_TOKEN)
    found = np.flatnonzero(known & (ours != theirs))
    return _spelt("token", found, left, join=join, values=(ours, theirs)), len(found)


def _slots(left: Side, right: Side, join: RequestJoin) -> tuple[list[TableDifference], int]:
    if left.held is None or right.held is None:
        return [], 0
    ours, theirs = left.held.slots[join.left_elements], right.held.slots[join.right_elements]
    found = np.flatnonzero(ours != theirs)
    return _spelt("slot", found, left, join=join, values=(ours, theirs)), len(found)


def _spelt(
    what: str,
    found: NDArray[np.int64],
    left: Side,
    *,
    join: RequestJoin,
    values: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> list[TableDifference]:
    shown = found[:_MAX_SPELT]
    if left.held is None:
        return []
    names = left.held.request_ids_of(join.left_elements[shown])
    ours, theirs = values
    return [
        TableDifference(request_id=name, what=what, position=position, left=one, right=other)
        for name, position, one, other in zip(
            names,
            join.positions[shown].tolist(),
            ours[shown].tolist(),
            theirs[shown].tolist(),
            strict=True,
        )
    ]


def _lengths(
    ours: Sequences, theirs: Sequences, join: RequestJoin
) -> tuple[list[TableDifference], int]:
    found = np.flatnonzero(ours.kv_lens[join.left_numbers] != theirs.kv_lens[join.right_numbers])
    return [
        TableDifference(
            request_id=ours.request_ids[join.left_numbers[number]],
            what="kv_len",
            left=int(ours.kv_lens[join.left_numbers[number]]),
            right=int(theirs.kv_lens[join.right_numbers[number]]),
        )
        for number in found[:_MAX_SPELT].tolist()
    ], len(found)


def _tokens_at(
    side: Side, elements: NDArray[np.int64], positions: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The token of each position of a request, shape [n], int64; UNKNOWN_TOKEN past its tokens."""
    if side.held is None or not len(side.held.sequences.tokens):
        return np.full(len(elements), UNKNOWN_TOKEN, dtype=np.int64)
    sequences, owners = side.held.sequences, side.owners[elements]
    places = sequences.token_offsets[owners] + positions
    inside = places < sequences.token_offsets[owners + 1]
    tokens = sequences.tokens[np.where(inside, places, 0)]
    return np.where(inside, tokens, UNKNOWN_TOKEN)
