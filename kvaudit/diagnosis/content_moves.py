"""How misplaced content moved, in groups of one cause."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.claims import NO_ROW
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import Snapshot
from kvaudit.diagnosis.content_homes import ContentHomes
from kvaudit.diagnosis.exchanged_pages import exchanged_pages, homes_by_page


class Move(Enum):
    """What the misplaced records of one cause have in common.

    Pages changed places, slots of one sequence did, they are of another sequence, or of one that
    is no more.
    """

    PAGES = auto()
    SLOTS = auto()
    FOREIGN = auto()
    EARLIER = auto()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MovedContent:
    """Misplaced records of one cause.

    Fields:
        move: how they moved.
        rows: where they stand, shape [n], int64, in the order of the sequence that claims them.
        homes: where each belongs, shape [n], int64.
        adrift: rows that are chained to these and belong nowhere, shape [k], int64.
        shift: positions from where they belong to where they stand; 0 unless all have the same.
    """

    move: Move
    rows: NDArray[np.int64]
    homes: NDArray[np.int64]
    adrift: NDArray[np.int64]
    shift: int


def moved_content(homes: ContentHomes, snapshot: Snapshot) -> list[MovedContent]:
    """The misplaced records of one column, in groups."""
    home_of = homes_by_page(homes, snapshot)
    if not home_of:
        return []
    claims, first = homes.claims, homes.first_claims
    rows = np.fromiter(home_of, np.int64, len(home_of))
    rows = rows[np.argsort(first[rows], kind="stable")]
    targets = np.array([home_of[row] for row in rows.tolist()], dtype=np.int64)
    # An unclaimed row's first claim is -1: the number of nobody.
    numbers = np.append(claims.sequence_numbers, NO_ROW)
    positions = np.append(claims.positions, 0)
    own, theirs = numbers[first[rows]], numbers[first[targets]]
    shifts = np.where(theirs == NO_ROW, 0, positions[first[rows]] - positions[first[targets]])
    pages, live = exchanged_pages(homes, home_of, snapshot), _live_rows(homes, targets)
    groups: dict[tuple[Move, Hashable], list[int]] = {}
    for member, row in enumerate(rows.tolist()):
        key: tuple[Move, Hashable]
        if row in pages:
            key = (Move.PAGES, pages[row])
        elif own[member] == theirs[member] != NO_ROW:
            key = (Move.SLOTS, (int(own[member]), int(shifts[member])))
        elif int(targets[member]) in live:
            key = (Move.FOREIGN, (int(own[member]), int(theirs[member])))
        else:
            key = (Move.EARLIER, int(own[member]))
        groups.setdefault(key, []).append(member)
    group_of = {
        int(rows[member]): number
        for number, members in enumerate(groups.values())
        for member in members
    }
    behind: dict[int, list[int]] = {}
    for row, root in homes.adrift.items():
        behind.setdefault(group_of[root], []).append(row)
    return [
        MovedContent(
            move=move,
            rows=rows[members],
            homes=targets[members],
            adrift=np.array(behind.get(number, []), dtype=np.int64),
            shift=int(shifts[members[0]]) if (shifts[members] == shifts[members[0]]).all() else 0,
        )
        for number, ((move, _), members) in enumerate(groups.items())
    ]


def _live_rows(homes: ContentHomes, rows: NDArray[np.int64]) -> set[int]:
    """The rows that a sequence claims which is not finished."""
    claims = homes.claims
    members = claims.of_rows(rows)
    states = claims.states_of(members)
    return {
        row
        for row, state in zip(claims.rows[members].tolist(), states, strict=True)
        if state is not SequenceState.FINISHED
    }
