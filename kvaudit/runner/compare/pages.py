"""Digests of pages: which matched slots make up the same page in both dumps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.comparison_evidence import SlotPairs
from kvaudit.core.layout import rows_per_page
from kvaudit.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PagePairs:
    """Pages of the right dump that matched slots lie in.

    Fields:
        heads: the first pair of each page that is one page of the left dump, slot by slot in the
            same order, shape [m], int64, ascending.
        num_pages: all of them.
    """

    heads: NDArray[np.int64]
    num_pages: int


def page_pairs(pairs: SlotPairs, left: Snapshot, right: Snapshot) -> PagePairs:
    """Find the pages that can be compared: a hash is of all rows of a page, in slot order."""
    if not len(pairs):
        return PagePairs(heads=np.empty(0, dtype=np.int64), num_pages=0)
    our_pages, our_places, our_sizes = _pages(left, pairs.left_rows)
    pages, places, sizes = _pages(right, pairs.right_rows)
    heads = np.flatnonzero(np.diff(pages, prepend=-1))
    counts = np.diff(heads, append=len(pages))
    whole = (counts == sizes[heads]) & (counts == our_sizes[heads])
    whole &= np.minimum.reduceat(our_pages, heads) == np.maximum.reduceat(our_pages, heads)
    whole &= np.logical_and.reduceat(our_places == places, heads)
    return PagePairs(heads=heads[whole], num_pages=len(heads))


def _pages(
    snapshot: Snapshot, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The page of each row, its place among that page's rows, and how many it has; [n] each."""
    sizes = rows_per_page(snapshot.slots, snapshot.page_size)
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    places = np.arange(snapshot.num_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return numbers[rows], places[rows], sizes[numbers[rows]]
