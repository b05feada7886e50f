"""KV309 sentinel-write: a padding row, or an index of -1, was written to a real slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import RealKvHashMode
from kvaudit.core.column_names import column_layer
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_rows import source_hashes
from kvaudit.diagnosis.byte_view import ByteView, Channel
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.row_sets import among
from kvaudit.diagnosis.rule import Rule, at
from kvaudit.kernels.hash.arrays import mixed

RULE = Rule(id="KV309", name="sentinel-write", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """A slot that holds what a reserved slot holds: padding rows are written there.

    An index of -1 is the last slot of a tensor, in every layer. That alone proves nothing, so
    another writer of that slot stays an alternative.
    """
    view = failures.byte_view
    found = _copies_of_reserved_slots(view)
    known = np.array([int(one.roots[0]) for one in found], dtype=np.int64)
    rows = np.setdiff1d(view.rows(), known)
    return found + _last_slot(view, rows)


def _copies_of_reserved_slots(view: ByteView) -> list[Explanation]:
    snapshot = view.evidence.snapshot
    reserved = np.flatnonzero(snapshot.reserved_slots.mask(snapshot.slots))
    source_of: dict[int, int] = {}
    for channel in view.channels() if reserved.size else ():
        if channel.is_column and column_layer(channel.name) is None:
            continue
        theirs = _hashes_of(view, channel, reserved)
        if theirs is None:
            continue
        same = (channel.held[:, None] == theirs) & (channel.held[:, None] != 0)
        for member in np.flatnonzero(same.any(axis=1)).tolist():
            row = int(channel.rows[member])
            source_of.setdefault(row, int(reserved[np.argmax(same[member])]))
    return [_copy(view, row, source) for row, source in source_of.items()]


def _hashes_of(
    view: ByteView, channel: Channel, rows: NDArray[np.int64]
) -> NDArray[np.uint64] | None:
    """What rows, shape [n], int64, hash to now in a channel; None if the dump does not say."""
    if channel.is_column:
        return view.content.source_hashes(channel.name, rows)
    is_leading = view.evidence.snapshot.real_kv_hash_mode is RealKvHashMode.PARTIAL
    running = np.zeros(len(rows), dtype=np.uint64)
    for column in view.sources_of(view.half_of(channel)):
        hashes = source_hashes(view, column, rows, is_leading=is_leading)
        if hashes is None:
            return None
        running = mixed(running ^ hashes)
    return running


def _copy(view: ByteView, row: int, source: int) -> Explanation:
    slots = view.evidence.snapshot.slots
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=row,
            summary=(
                f"{at(slots[row], view.evidence)} holds the bytes of the reserved "
                f"{at(slots[source], view.evidence)}: a padding row was written there"
            ),
            roots=np.array([row], dtype=np.int64),
            facts={"content_of_slot": int(slots[source])},
        )
    )


def _last_slot(view: ByteView, rows: NDArray[np.int64]) -> list[Explanation]:
    """The last slot of the pool, if it is the only one of its run that differs, and in all of K and V."""
    snapshot = view.evidence.snapshot
    last = snapshot.num_slots - 1
    alone = rows[(snapshot.slots[rows] == last)]
    if not alone.size or np.isin(last - 1, snapshot.slots[rows]) or not _is_whole(view, alone):
        return []
    return [
        view.claiming(
            Explanation(
                rule=RULE,
                cause=int(alone[0]),
                summary=(
                    f"{at(last, view.evidence)} was written over; it is the last of the pool, "
                    "which an index of -1 names"
                ),
                roots=alone,
                facts={"content_of_slot": None},
                alternatives=("KV203", "KV301"),
                settled_by="`out_cache_loc` of the steps since the slot was stamped",
            )
        )
    ]


def _is_whole(view: ByteView, rows: NDArray[np.int64]) -> bool:
    """Whether one row, shape [1], int64, differs in all columns of K and V, as their stamps say."""
    differing = view.evidence.differing
    stamped = [name for name in view.kv_columns if name in view.evidence.snapshot.stamped]
    return bool(stamped) and all(
        name in differing and among(rows, differing[name]).all() for name in stamped
    )
