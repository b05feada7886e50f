"""Content of those who had a slot before: what was saved of it when it was given away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.dataset import AuditedPool
from kvaudit.core.snapshot import Snapshot
from kvaudit.diagnosis.byte_view import ByteView, Channel
from kvaudit.diagnosis.row_sets import union_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EarlierBytes:
    """Rows that hold the bytes which an earlier owner had in the same slots.

    Fields:
        owner: whose, such as `request A`.
        rows: shape [n], int64, ascending.
    """

    owner: str
    rows: NDArray[np.int64]


def earlier_bytes(view: ByteView) -> list[EarlierBytes]:
    """The open rows that hold what was stamped for an earlier owner, in every column that differs."""
    columns = [channel for channel in view.channels() if channel.is_column]
    rows = union_of([channel.rows for channel in columns])
    found: dict[str, list[NDArray[np.int64]]] = {}
    for pool in view.evidence.earlier:
        slots = view.evidence.snapshot.slots[rows]
        fits = _fits(pool.snapshot, slots=slots, rows=rows, columns=columns)
        fitting = rows[fits]
        for owner, members in _by_owner(pool, slots[fits]):
            found.setdefault(owner, []).append(fitting[members])
        rows = np.setdiff1d(rows, fitting)
    return [EarlierBytes(owner=owner, rows=union_of(parts)) for owner, parts in found.items()]


def _fits(
    earlier: Snapshot,
    *,
    slots: NDArray[np.int64],
    rows: NDArray[np.int64],
    columns: Sequence[Channel],
) -> NDArray[np.bool_]:
    """Which rows, shape [n], int64, ascending, hold what a pool of before was stamped with.

    Args:
        earlier: that pool.
        slots: the slots of the rows, shape [n], int64.
        rows: the rows.
        columns: what differs of them.
    """
    theirs = earlier.rows_of(slots.copy())
    fits, holds_any = theirs >= 0, np.zeros(rows.shape, dtype=np.bool_)
    for channel in columns:
        stamps = earlier.stamped.get(channel.name)
        _, here, members = np.intersect1d(rows, channel.rows, return_indices=True)
        if stamps is None:
            fits[here] = False
            continue
        held = channel.held[members]
        fits[here] &= stamps.read().view(np.uint64)[theirs[here]] == held
        holds_any[here] |= held != 0
    return fits & holds_any


def _by_owner(pool: AuditedPool, slots: NDArray[np.int64]) -> list[tuple[str, NDArray[np.int64]]]:
    """The slots, shape [n], int64, of each owner in a pool of before, as numbers that count in them."""
    owners: dict[str, list[int]] = {}
    for sequences in pool.sequences:
        for number, name in enumerate(sequences.request_ids):
            members = np.flatnonzero(np.isin(slots, sequences.slots_of(number)))
            if members.size:
                owner = "a request without a name" if name is None else f"request {name}"
                owners.setdefault(owner, []).extend(members.tolist())
    return [(owner, np.unique(members)) for owner, members in owners.items()]
