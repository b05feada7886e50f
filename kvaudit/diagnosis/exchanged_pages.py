"""Pages that changed places whole: what the homes of their records say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.snapshot import Snapshot
from kvaudit.diagnosis.content_homes import ContentHomes


def homes_by_page(homes: ContentHomes, snapshot: Snapshot) -> dict[int, int]:
    """The home of each misplaced row, as far as it tells; else that which its page tells.

    What a row is chained to may be written over, or lie before what its sequence still has, or
    stand elsewhere as well, where a prompt was computed twice. But it fits the place on the page
    from which the records of another page came to its own.
    """
    home_pages = _home_pages(homes.by_row, snapshot)
    pages, their_homes = np.array([*home_pages.items()], dtype=np.int64).reshape(-1, 2).T
    lost, found = _rows_of(snapshot, pages), _rows_of(snapshot, their_homes)
    both = (lost >= 0) & (found >= 0)
    pairs = zip(found[both].tolist(), lost[both].tolist(), strict=True)
    return homes.by_row | {row: home for row, home in pairs if homes.could_be_of(row, home)}


def exchanged_pages(
    homes: ContentHomes, home_of: Mapping[int, int], snapshot: Snapshot
) -> dict[int, int]:
    """The rows on pages that changed places whole, each with a number for its set of pages.

    Pages did so if they went round among them, every record to its own place on the page, and no
    sound record stayed behind.
    """
    rows, targets = np.array([*home_of.items()], dtype=np.int64).T
    slots, target_slots = snapshot.slots[rows], snapshot.slots[targets]
    page_size = snapshot.page_size
    pages, target_pages = slots // page_size, target_slots // page_size
    home_pages = _home_pages(home_of, snapshot)
    cycles = cycles_of(home_pages)
    members = [page for cycle in cycles for page in cycle]
    in_place = (slots % page_size == target_slots % page_size) & (pages != target_pages)
    broken = set(pages[~in_place & np.isin(target_pages, members)].tolist())
    broken |= _pages_with_sound_rows(homes, home_of, snapshot, pages=members)
    set_of = {
        page: number
        for number, cycle in enumerate(cycles)
        if broken.isdisjoint(cycle)
        for page in cycle
    }
    return {
        row: set_of[page]
        for row, page, target in zip(
            rows.tolist(), pages.tolist(), target_pages.tolist(), strict=True
        )
        if page in set_of and home_pages[page] == target
    }


def _home_pages(home_of: Mapping[int, int], snapshot: Snapshot) -> dict[int, int]:
    """The page to which the records of each page belong, most of them, at the same place on it."""
    rows, targets = np.array([*home_of.items()], dtype=np.int64).reshape(-1, 2).T
    slots, target_slots, page_size = (
        snapshot.slots[rows],
        snapshot.slots[targets],
        snapshot.page_size,
    )
    pairs = np.stack((slots, target_slots), axis=1) // page_size
    in_place = (slots % page_size == target_slots % page_size) & (pairs[:, 0] != pairs[:, 1])
    pairs, counts = np.unique(pairs[in_place], axis=0, return_counts=True)
    return dict(pairs[np.argsort(counts, kind="stable")].tolist())


def cycles_of(follows: Mapping[int, int]) -> list[list[int]]:
    """Those who come back to themselves by going from each to what it maps to, each cycle once."""
    found: list[list[int]] = []
    seen: set[int] = set()
    for start in follows:
        path: dict[int, None] = {}
        member = start
        while member in follows and member not in seen:
            seen.add(member)
            path[member] = None
            member = follows[member]
        if member in path:
            walked = list(path)
            found.append(walked[walked.index(member) :])
    return found


def _pages_with_sound_rows(
    homes: ContentHomes,
    home_of: Mapping[int, int],
    snapshot: Snapshot,
    *,
    pages: Sequence[int],
) -> set[int]:
    """Those of the pages on which a claimed record stands where it belongs."""
    rows = _rows_of(snapshot, np.array(pages, dtype=np.int64))
    rows = rows[rows >= 0]
    # Equal records do not tell whether they stayed: two requests may begin with one prompt.
    _, inverse, counts = np.unique(homes.slot_hashes[rows], return_inverse=True, return_counts=True)
    sound = (homes.first_claims[rows] >= 0) & (counts[inverse] == 1)
    # What failed by its chain check alone, and has no home, is behind a bad row.
    wrong = np.setdiff1d(homes.failed_rows, homes.broken_rows)
    sound &= (homes.slot_hashes[rows] != 0) & ~np.isin(rows, wrong)
    sound &= ~np.isin(rows, np.fromiter((*home_of, *homes.adrift), np.int64))
    return set((snapshot.slots[rows[sound]] // snapshot.page_size).tolist())


def _rows_of(snapshot: Snapshot, pages: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of all slots of pages, shape [n], int64, page by page; -1 where the dump lacks one.

    Returns:
        shape [n * page_size], int64.
    """
    first_slots = pages[:, None] * snapshot.page_size
    return snapshot.rows_of((first_slots + np.arange(snapshot.page_size)).ravel())
