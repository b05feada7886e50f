"""Bytes that stand in another slot than the one whose stamp they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.claims import NO_ROW
from kvaudit.core.column_names import column_layer
from kvaudit.core.sequences import SequenceState
from kvaudit.core.value_index import ValueIndex
from kvaudit.diagnosis.byte_view import MAX_CAUSES, ByteView, Channel
from kvaudit.diagnosis.earlier_owners import earlier_bytes

# The number of the groups that a storm has beyond those that are findings of their own.
_THE_REST: Final = -2


class ByteMove(Enum):
    """What the moved bytes of one cause have in common.

    They went round among the slots, or stand in other slots of their own sequence; they are of
    another sequence; or of one that is no more.
    """

    PERMUTED = auto()
    FOREIGN = auto()
    EARLIER = auto()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MovedBytes:
    """Moved bytes of one cause.

    Fields:
        move: how they moved.
        rows: where they stand, shape [n], int64, ascending.
        homes: where each belongs, shape [n], int64.
    """

    move: ByteMove
    rows: NDArray[np.int64]
    homes: NDArray[np.int64]


def moved_bytes(view: ByteView) -> list[MovedBytes]:
    """The open rows whose bytes another row's stamp fits, in groups of one cause.

    What an earlier owner had in the same slot came from nowhere else.
    """
    home_of = _homes(view)
    for earlier in earlier_bytes(view):
        for row in earlier.rows.tolist():
            home_of.pop(row, None)
    if not home_of:
        return []
    rows = np.array(sorted(home_of), dtype=np.int64)
    homes = np.array([home_of[row] for row in rows.tolist()], dtype=np.int64)
    claims, first = view.evidence.claims, view.first_claims
    numbers = np.append(claims.sequence_numbers, NO_ROW)
    own, theirs = numbers[first[rows]], numbers[first[homes]]
    # What took the place of other moved bytes went round with them.
    permuted = np.isin(homes, rows) & np.isin(rows, homes)
    permuted |= (own == theirs) & (own != NO_ROW)
    live = _live(view, homes)
    groups: dict[tuple[ByteMove, object], list[int]] = {}
    sets = _joined_pages(view, rows[permuted], homes[permuted])
    for member, row in enumerate(rows.tolist()):
        key: tuple[ByteMove, object]
        if permuted[member]:
            key = (ByteMove.PERMUTED, sets[row])
        elif live[member]:
            key = (ByteMove.FOREIGN, (int(own[member]), int(theirs[member])))
        else:
            key = (ByteMove.EARLIER, int(own[member]))
        if key not in groups and len(groups) >= MAX_CAUSES:
            key = (key[0], _THE_REST)
        groups.setdefault(key, []).append(member)
    return [
        MovedBytes(move=move, rows=rows[members], homes=homes[members])
        for (move, _), members in groups.items()
    ]


def _homes(view: ByteView) -> dict[int, int]:
    """For each open row the row whose stamp its bytes fit, one that lost its own bytes first.

    A slot's bytes move together: the hash of the last layer is asked in which a row differs, and
    those of all others have to agree. In the first layer KV is of a token and its position alone,
    so that its rows are equal in sequences that have nothing to do with each other.
    """
    channels = view.channels()
    columns = [each for each in channels if each.is_column and column_layer(each.name) is not None]
    combined = [each for each in channels if not each.is_column]
    found: dict[int, int] = {}
    asked = np.empty(0, dtype=np.int64)
    for channel in (*reversed(columns), *combined):
        members = np.flatnonzero((channel.held != 0) & ~np.isin(channel.rows, asked))
        rows, homes = channel.rows[members], _homes_in(channel, channel.held[members])
        known = homes != NO_ROW
        # A reserved slot is nobody's: what padding rows leave there has a rule of its own.
        known &= view.evidence.names_slot(view.evidence.snapshot.slots[homes])
        found |= dict(zip(rows[known].tolist(), homes[known].tolist(), strict=True))
        asked = np.union1d(asked, rows)
    for row in _disagreeing(columns, found):
        del found[row]
    return found


def _disagreeing(columns: Sequence[Channel], home_of: Mapping[int, int]) -> set[int]:
    """The rows that hold something else in a column than what was stamped at their home."""
    rows, homes = np.array([*home_of.items()], dtype=np.int64).reshape(-1, 2).T
    order = np.argsort(rows)
    rows, homes = rows[order], homes[order]
    found: set[int] = set()
    for channel in columns:
        _, here, members = np.intersect1d(rows, channel.rows, return_indices=True)
        differs = channel.written[homes[here]] != channel.held[members]
        found.update(rows[here[differs]].tolist())
    return found


def _homes_in(channel: Channel, held: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The row whose stamp is each hash, shape [n], uint64; [n], int64, NO_ROW where none is."""
    among = ValueIndex(channel.written[channel.rows]).first(held)
    homes = np.where(among >= 0, channel.rows[np.maximum(among, 0)], NO_ROW)
    rest = homes == NO_ROW
    homes[rest] = homes_in(channel.written, held[rest])
    return homes


def homes_in(written: NDArray[np.uint64], held: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The first row of written, shape [num_rows], that is each hash of held, shape [n], uint64.

    Few are wanted, and the pool is large: it is looked up in them, and not sorted.

    Returns:
        shape [n], int64; NO_ROW where there is none.
    """
    wanted, places = np.unique(held, return_inverse=True)
    hits = ValueIndex(wanted).first(written)
    rows = np.flatnonzero(hits >= 0)[::-1]
    first = np.full(len(wanted), NO_ROW, dtype=np.int64)
    first[hits[rows]] = rows
    return first[places]


def _live(view: ByteView, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows, shape [n], int64, a sequence claims that is not finished; shape [n], bool."""
    claims = view.evidence.claims
    members = claims.of_rows(rows)
    running = np.array(
        [state is not SequenceState.FINISHED for state in claims.states_of(members)], dtype=np.bool_
    )
    found: NDArray[np.bool_] = np.isin(rows, claims.rows[members[running]])
    return found


def _joined_pages(
    view: ByteView, rows: NDArray[np.int64], homes: NDArray[np.int64]
) -> dict[int, int]:
    """For each row, shape [n], int64, a number of its set: pages between which bytes moved."""
    slots, page_size = view.evidence.snapshot.slots, view.evidence.snapshot.page_size
    joined: dict[int, int] = {}

    def set_of(page: int) -> int:
        while joined.setdefault(page, page) != page:
            joined[page] = joined[joined[page]]
            page = joined[page]
        return page

    pages = (slots[rows] // page_size).tolist()
    for page, home in zip(pages, (slots[homes] // page_size).tolist(), strict=True):
        joined[set_of(page)] = set_of(home)
    return {row: set_of(page) for row, page in zip(rows.tolist(), pages, strict=True)}
