"""Rows that hold another token's layer-0 content, in groups of one cause, each with its word."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.identity import Content
from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.exchanged_pages import cycles_of
from kvaudit.diagnosis.held_homes import NO_HOME, HeldHomes


class Cause(StrEnum):
    """What made the rows of a group wrong, in a word."""

    FOREIGN = "foreign content"
    LATE = "late writer"
    PAGES = "page permutation"
    SHIFT = "slot shift"
    STALE = "stale page"
    TOKEN = "wrong token"  # noqa: S105 - a token of text, no secret
    ZEROS = "zeros"
    NOT_FINITE = "a NaN or an infinity"
    OTHER_TYPE = "another element type"
    OTHER_HEADS = "another rank's heads"


# A run fills its pages where it has so many rows for each sound one there.
_FEW: Final = 4
_BY_CONTENT: Final = {
    Content.ZEROS: Cause.ZEROS,
    Content.NOT_FINITE: Cause.NOT_FINITE,
    Content.OTHER_TYPE: Cause.OTHER_TYPE,
    Content.OTHER_HEADS: Cause.OTHER_HEADS,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldGroup:
    """Wrong rows of one cause.

    Fields:
        cause: the word for it.
        members: the rows, numbers among the wrong ones, shape [n], int64, in sequence order.
        homes: the claim that the content of each fits, shape [n], int64; NO_HOME where none does.
    """

    cause: Cause
    members: NDArray[np.int64]
    homes: NDArray[np.int64]


def held_groups(held: HeldHomes) -> list[HeldGroup]:
    """All wrong rows in groups of one cause, those of the first sequences first."""
    pages = _exchanged_pages(held)
    groups: dict[tuple[Cause, Hashable], list[int]] = {}
    for number, run in enumerate(held.runs):
        for member, key in zip(run.tolist(), _keys(held, run, number, pages=pages), strict=True):
            groups.setdefault(key, []).append(member)
    return [
        HeldGroup(
            cause=cause,
            members=np.array(members, dtype=np.int64),
            homes=held.homes[np.array(members, dtype=np.int64)],
        )
        for (cause, _), members in groups.items()
    ]


def _keys(
    held: HeldHomes, run: NDArray[np.int64], number: int, *, pages: dict[int, int]
) -> list[tuple[Cause, Hashable]]:
    """The cause of each member of a run, and what tells causes of one word apart."""
    wrong, claims = held.wrong, held.claims
    numbers = claims.sequence_numbers
    homes = held.homes[run]
    states = dict(zip(homes[homes >= 0].tolist(), claims.states_of(homes[homes >= 0]), strict=True))
    alone = _cause_without_home(held, run)
    keys: list[tuple[Cause, Hashable]] = []
    for member, home in zip(run.tolist(), homes.tolist(), strict=True):
        page = pages.get(int(wrong.rows[member]))
        own = int(wrong.claims[member])
        if page is not None:
            keys.append((Cause.PAGES, page))
        elif wrong.contents[member] in _BY_CONTENT:
            keys.append((_BY_CONTENT[wrong.contents[member]], number))
        elif home == NO_HOME:
            keys.append((alone, number))
        elif numbers[home] == numbers[own]:
            shift = int(claims.positions[home] - claims.positions[own])
            keys.append((Cause.SHIFT, (int(numbers[own]), shift)))
        elif states[home] is not SequenceState.FINISHED:
            keys.append((Cause.FOREIGN, (int(numbers[own]), int(numbers[home]))))
        else:
            stays = claims.rows[home] == wrong.rows[member] and _fills_pages(held, run)
            whose = (int(numbers[own]), int(numbers[home]))
            keys.append((Cause.STALE if stays else Cause.LATE, whose))
    return _joined(keys, homes, alone=(alone, number))


def _joined(
    keys: list[tuple[Cause, Hashable]],
    homes: NDArray[np.int64],
    *,
    alone: tuple[Cause, Hashable],
) -> list[tuple[Cause, Hashable]]:
    """Rows that nothing places belong to what most of their run is of."""
    placed = [key for key, home in zip(keys, homes.tolist(), strict=True) if home != NO_HOME]
    if 2 * len(placed) < len(keys) or not placed:
        return keys
    most = max(dict.fromkeys(placed), key=placed.count)
    return [most if key == alone else key for key in keys]


def _cause_without_home(held: HeldHomes, run: NDArray[np.int64]) -> Cause:
    """The word for content that no sequence of the dump has."""
    wrong, claims = held.wrong, held.claims
    offset = held.evidence.snapshot.position_offset
    own = claims.positions[wrong.claims[run]] - offset
    if (wrong.positions[run] == own).all() and len(run) == 1:
        return Cause.TOKEN
    return Cause.STALE if _fills_pages(held, run) else Cause.LATE


def _fills_pages(held: HeldHomes, run: NDArray[np.int64]) -> bool:
    """Whether a run is of several rows, and few on its pages hold what they should.

    Those few may be of a token that both contents have at the same place.
    """
    snapshot = held.evidence.snapshot
    if len(run) == 1:
        return False
    pages = snapshot.slots[held.wrong.rows[run]] // snapshot.page_size
    firsts = np.unique(pages)[:, None] * snapshot.page_size
    rows = snapshot.rows_of((firsts + np.arange(snapshot.page_size)).ravel())
    sound = np.count_nonzero(held.identity.sound[rows[rows >= 0]])
    return bool(sound * _FEW <= len(run))


def _exchanged_pages(held: HeldHomes) -> dict[int, int]:
    """The wrong rows on pages that changed places, each with a number for its set of pages.

    Most of what a page holds must be of one other page, in its order, and so on until the first
    page is reached again.
    """
    snapshot, wrong = held.evidence.snapshot, held.wrong
    page_size = snapshot.page_size
    placed = np.flatnonzero(held.homes >= 0)
    slots = snapshot.slots[wrong.rows]
    home_rows = held.claims.rows[held.homes[placed]]
    placed, home_rows = placed[home_rows >= 0], home_rows[home_rows >= 0]
    home_slots = snapshot.slots[home_rows]
    in_order = slots[placed] % page_size == home_slots % page_size
    placed, home_slots = placed[in_order], home_slots[in_order]
    moves = np.stack((slots[placed] // page_size, home_slots // page_size), axis=1)
    ways, counts = np.unique(moves, axis=0, return_counts=True)
    pages, on_page = np.unique(slots // page_size, return_counts=True)
    size = dict(zip(pages.tolist(), on_page.tolist(), strict=True))
    belongs = {
        page: home
        for (page, home), count in zip(ways.tolist(), counts.tolist(), strict=True)
        if page != home and 2 * count > size[page]
    }
    numbers = {page: min(cycle) for cycle in cycles_of(belongs) for page in cycle}
    return {
        row: numbers[page]
        for row, page in zip(wrong.rows.tolist(), (slots // page_size).tolist(), strict=True)
        if page in numbers
    }
