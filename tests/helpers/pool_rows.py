"""Parts of a forward, whose token at a position is ten times that."""

from __future__ import annotations

import numpy as np

from kvaudit.capture.pool_row import PoolRow


def row(request_id: str, positions: range, slots: list[int], **known: object) -> PoolRow:
    """A row of a request: positions that are run, and its table."""
    return PoolRow(
        request_id=request_id,
        positions=positions,
        tokens=np.array([10 * position for position in positions]),
        slots=np.array(slots),
        known_tokens=known.get("tokens"),
        prompt_len=known.get("prompt_len", -1),
    )
