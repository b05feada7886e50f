"""The joins of a comparison: contents by their names, and requests by theirs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.held_slots import HeldSlots
from kvaudit.runner.compare.side import Contents, Side
from kvaudit.runner.in_order import in_order


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContentJoin:
    """Where the contents of a right dump stand in a left one.

    The n-th slot of a content on the right goes with the n-th on the left, and further ones with
    the last there: each could stand for it, since their content is the same.

    Fields:
        left_places: place among the left contents of each right one, shape [n], int64; -1 = none.
        ambiguous: right contents that several left slots have, shape [n], bool.
        left_found: left contents that the right dump has, shape [m], bool.
    """

    left_places: NDArray[np.int64]
    ambiguous: NDArray[np.bool_]
    left_found: NDArray[np.bool_]


def join_contents(left: Contents, right: Contents) -> ContentJoin:
    """Find each right content on the left: two sorts, then searches in ascending order."""
    sorts = [partial(np.argsort, contents.ids, kind="stable") for contents in (left, right)]
    left_order, right_order = in_order(sorts, max_at_once=len(sorts))
    left_ids, right_ids = left.ids[left_order], right.ids[right_order]
    starts = np.searchsorted(left_ids, right_ids, side="left")
    if _is_distinct(left_ids) and _is_distinct(right_ids):
        counts = _stands_at(left_ids, starts, right_ids).astype(np.int64)
        numbers = np.zeros_like(counts)
    else:
        counts = np.searchsorted(left_ids, right_ids, side="right") - starts
        numbers = np.arange(len(right_ids)) - np.searchsorted(right_ids, right_ids, side="left")
    found = counts > 0
    places = np.full(len(right_ids), -1, dtype=np.int64)
    places[found] = left_order[starts[found] + np.minimum(numbers[found], counts[found] - 1)]
    left_places, ambiguous = np.empty_like(places), np.empty(len(places), dtype=np.bool_)
    left_places[right_order], ambiguous[right_order] = places, counts > 1
    left_found = np.zeros(len(left_ids), dtype=np.bool_)
    left_found[places[found]] = True
    if ambiguous.any():
        nearest = np.searchsorted(right_ids, left_ids)
        left_found[left_order] = _stands_at(right_ids, nearest, left_ids)
    return ContentJoin(left_places=left_places, ambiguous=ambiguous, left_found=left_found)


def _is_distinct(ascending: NDArray[np.uint64]) -> bool:
    """Whether no two of ascending values, shape [n], uint64, are equal."""
    return not (ascending[1:] == ascending[:-1]).any()


def _stands_at(
    values: NDArray[np.uint64], places: NDArray[np.int64], wanted: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """Whether each wanted value is the one at its place, shape [n], bool; none is past the end."""
    if not len(values):
        return np.zeros(len(wanted), dtype=np.bool_)
    found: NDArray[np.bool_] = values[np.minimum(places, len(values) - 1)] == wanted
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestJoin:
    """The positions that sequences of the same name hold in both dumps.

    Fields:
        left_elements: held elements of the left dump, shape [n], int64.
        right_elements: those of the right one, shape [n], int64.
        positions: shape [n], int64.
        left_behind: held elements of the left dump past the last position that the right one has of
            their request, shape [m], int64.
        left_numbers: sequences of the left dump that both have, shape [k], int64.
        right_numbers: the same of the right one, shape [k], int64.
        left_only: names that the left dump alone has, in its order.
        right_only: names that the right one alone has.
    """

    left_elements: NDArray[np.int64]
    right_elements: NDArray[np.int64]
    positions: NDArray[np.int64]
    left_behind: NDArray[np.int64]
    left_numbers: NDArray[np.int64]
    right_numbers: NDArray[np.int64]
    left_only: list[str]
    right_only: list[str]


def join_requests(left: Side, right: Side) -> RequestJoin | None:
    """Pair the positions of requests that both dumps name; None where one has no sequences.

    Of several sequences of one name the n-th of either go together.
    """
    if left.held is None or right.held is None:
        return None
    ours, theirs = _named(left), _named(right)
    both = [name for name in ours if name in theirs]
    numbers = np.array([(ours[name], theirs[name]) for name in both], dtype=np.int64).reshape(-1, 2)
    left_numbers, right_numbers = numbers[:, 0], numbers[:, 1]
    firsts, lasts = _bounds(left.held, left_numbers)
    other_firsts, other_lasts = _bounds(right.held, right_numbers)
    begin = np.maximum(firsts, other_firsts)
    lengths = np.maximum(np.minimum(lasts, other_lasts) - begin, 0)
    behind = np.maximum(begin + lengths, other_lasts)
    return RequestJoin(
        left_elements=_elements(left.held, left_numbers, begin, lengths=lengths),
        right_elements=_elements(right.held, right_numbers, begin, lengths=lengths),
        positions=_ranges(begin, lengths),
        left_behind=_elements(
            left.held, left_numbers, behind, lengths=np.maximum(lasts - behind, 0)
        ),
        left_numbers=left_numbers,
        right_numbers=right_numbers,
        left_only=[name for name, _ in ours if (name, 0) not in theirs],
        right_only=[name for name, _ in theirs if (name, 0) not in ours],
    )


def _elements(
    held: HeldSlots,
    numbers: NDArray[np.int64],
    positions: NDArray[np.int64],
    *,
    lengths: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The held elements of each sequence from a position on, shape [lengths.sum()], int64."""
    return _ranges(held.offsets[numbers] + positions - held.first_positions[numbers], lengths)


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, .. of each range, one after another; shape [lengths.sum()], int64."""
    found: NDArray[np.int64] = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return found + np.arange(len(found))


def _named(side: Side) -> dict[tuple[str, int], int]:
    """The live sequences in scope by name, and how many of that name come before."""
    seen: dict[str, int] = {}
    named: dict[tuple[str, int], int] = {}
    if side.held is None:
        return named
    counted = side.held.counted & side.in_scope
    for number in np.flatnonzero(counted).tolist():
        name = side.held.sequences.request_ids[number]
        seen[name] = seen.get(name, -1) + 1
        named[name, seen[name]] = number
    return named


def _bounds(
    held: HeldSlots, numbers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First held position of each sequence, and the one behind its last; shape [k], int64 each."""
    firsts = held.first_positions[numbers]
    return firsts, firsts + np.diff(held.offsets)[numbers]
