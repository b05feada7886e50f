"""Where slots lie in memory: pools of different cache groups may share it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.slot_view import SlotView


def memory_of(views: Sequence[SlotView], slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """The addresses of each slot's first byte and of the one after its last, in each column.

    Shape [columns, n, 2], int64. Where heads are apart, what lies between them is included.
    """
    spans = [view.first_addresses(slots)[:, None] + [0, view.span_bytes] for view in views]
    return np.stack(spans).astype(np.int64, copy=False)


def overlaps(memory: NDArray[np.int64], written: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which slots lie, in any column, on memory that is written.

    Args:
        memory: of the slots, shape [columns, n, 2], int64.
        written: spans of addresses in any order, shape [m, 2], int64.

    Returns:
        shape [n], bool.
    """
    if not len(written):
        return np.zeros(memory.shape[1], dtype=np.bool_)
    starts, ends = written[np.argsort(written[:, 0])].T
    # Of the spans that begin before a slot's end, the one that reaches furthest.
    reach = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(ends)])
    furthest = reach[np.searchsorted(starts, memory[..., 1])]
    touched: NDArray[np.bool_] = np.any(furthest > memory[..., 0], axis=0)
    return touched
