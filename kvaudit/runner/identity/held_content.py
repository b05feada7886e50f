"""What rows hold that do not hold their token: looked up among all rows that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import element_type
from kvaudit.core.identity import NOT_TOLD, Content, WrongContent
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.pool_table import NUMBER_TYPES, PoolTable
from kvaudit.runner.identity.token_judge import TokenVerdicts
from kvaudit.runner.identity.token_search import KnownRows
from kvaudit.runner.identity.unrotated_k import UnrotatedK

# Rows that are looked up; what is behind these is counted with them.
MAX_LOOKED_UP: Final = 1 << 12
# A sequence is odd where more of its judged rows than that are of no known token, and so many.
_ODD: Final = 0.9
_MIN_ODD: Final = 4


def wrong_content(
    verdicts: TokenVerdicts,
    v: Layer0Rows,
    *,
    table: PoolTable | None,
) -> WrongContent:
    """The rows whose V is not their token's, and what the first of them hold instead.

    Args:
        verdicts: what is known of each row.
        v: the V column.
        table: the table as this pool holds it; None without one.
    """
    rows = verdicts.rows
    members = np.flatnonzero(verdicts.is_wrong)
    wrong = WrongContent(
        rows=rows.rows[members],
        claims=rows.claims[members],
        distances=verdicts.distances[members],
        votes=verdicts.votes[members],
        against=verdicts.against[members],
        contents=np.full(len(members), Content.NOT_KNOWN, dtype=object),
        tokens=np.full(len(members), NOT_TOLD, dtype=np.int64),
        positions=np.full(len(members), NOT_TOLD, dtype=np.int64),
        types=np.full(len(members), "", dtype=object),
    )
    length = v.lengths(wrong.rows)
    wrong.contents[~np.isfinite(length)] = Content.NOT_FINITE
    wrong.contents[length == 0] = Content.ZEROS
    tokens, tolerance = rows.tokens[members], verdicts.threshold.distance
    _look_up(wrong, tokens, v, among=verdicts.known, tolerance=tolerance)
    if table is not None:
        _look_among_own(wrong, tokens, v, table=table)
    return wrong


def without_odd_sequences(verdicts: TokenVerdicts, wrong: WrongContent) -> WrongContent:
    """Leave out sequences that are unlike the others throughout, and like no token that is known.

    Such a one may be of other weights, of an adapter that the dump does not name, or it is the
    right one and all others are not: by the rows of the dump alone nothing tells. Its rows are not
    judged then.
    """
    rows = verdicts.rows
    by_votes = verdicts.is_judged & ~verdicts.by_table
    places = np.searchsorted(rows.rows, wrong.rows)
    unknown = places[(wrong.contents == Content.NOT_KNOWN) & by_votes[places]]
    numbers, counts = np.unique(rows.sequences[unknown], return_counts=True)
    size = int(rows.sequences.max(initial=0)) + 1
    judged = np.bincount(rows.sequences[by_votes], minlength=size)[numbers]
    odd = numbers[(counts > _ODD * judged) & (counts >= _MIN_ODD)]
    forgotten = by_votes & np.isin(rows.sequences, odd)
    verdicts.forget(forgotten)
    return wrong.without(forgotten[places])


def _open(wrong: WrongContent) -> NDArray[np.int64]:
    """The first rows of which nothing is known yet."""
    return np.flatnonzero(wrong.contents == Content.NOT_KNOWN)[:MAX_LOOKED_UP]


def _look_up(
    wrong: WrongContent,
    tokens: NDArray[np.int64],
    v: Layer0Rows,
    *,
    among: Sequence[KnownRows],
    tolerance: float,
) -> None:
    """The tokens whose rows they are; tokens are those that they should be, shape [n], int64."""
    for known in among:
        members = _open(wrong)
        if not members.size or not len(known):
            continue
        found, distances = known.nearest(v.numbers(wrong.rows[members]), v.launch_distance)
        # Of a token that occurs nowhere else, this very row may be what is known.
        fits = (distances <= tolerance) & (known.tokens[found] != tokens[members])
        wrong.tokens[members[fits]] = known.tokens[found[fits]]
        wrong.contents[members[fits]] = Content.FOREIGN


def _look_among_own(
    wrong: WrongContent, tokens: NDArray[np.int64], v: Layer0Rows, *, table: PoolTable
) -> None:
    """Rows that are their own token's in another element type, or other heads of it."""
    named = element_type(v.dtype)
    for dtype in NUMBER_TYPES:
        kind = element_type(dtype)
        if kind is None or named is None or kind.itemsize != named.itemsize or kind is named:
            continue
        members = _fitting(wrong, tokens, v, view=table, dtype=dtype)
        wrong.contents[members] = Content.OTHER_TYPE
        wrong.types[members] = dtype
    for start in range(0, table.table.num_heads - table.num_heads + 1, max(1, table.num_heads)):
        if start != table.first_head:
            other = table.beginning_with(start)
            members = _fitting(wrong, tokens, v, view=other, dtype=v.dtype)
            wrong.contents[members] = Content.OTHER_HEADS


def _fitting(
    wrong: WrongContent, tokens: NDArray[np.int64], v: Layer0Rows, *, view: PoolTable, dtype: str
) -> NDArray[np.int64]:
    """The open rows that are their own token's as a view of the table has them."""
    members = _open(wrong)
    entries = view.trusted(tokens[members])
    members, entries = members[entries >= 0], entries[entries >= 0]
    distances = np.empty(len(members), dtype=np.float64)
    held = v.numbers(wrong.rows[members], dtype=dtype)
    v.launch_distance(held, view.v_numbers(entries), distances)
    return members[distances <= view.threshold.distance]


def rotated_for(wrong: WrongContent, k: Layer0Rows, known: UnrotatedK) -> None:
    """Fill in the positions that the K of rows was rotated for, where their token's K is known."""
    members = np.flatnonzero(wrong.tokens >= 0)[:MAX_LOOKED_UP]
    entries = known.entries_of(wrong.tokens[members])
    members, entries = members[entries >= 0], entries[entries >= 0]
    wrong.positions[members] = known.positions_of(k.numbers(wrong.rows[members]), entries)
