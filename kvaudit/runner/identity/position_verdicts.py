"""What is known of the K of rows, as far as it was judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.identity import NOT_TOLD, Threshold
from kvaudit.runner.identity.claims import TokenRows
from kvaudit.runner.identity.unrotated_k import UnrotatedK


@dataclass(slots=True, kw_only=True, eq=False)
class PositionVerdicts:
    """What is known of the K of each row; filled source by source.

    Fields:
        rows: the rows.
        distances: from what it should be, shape [n], float64; -1 where it was not judged.
        is_wrong: shape [n], bool.
        positions: the position that a wrong row was rotated for, shape [n], int64; NOT_TOLD where
            none explains it.
        threshold: the largest distance that is none; None where no row was judged.
        known: K before its rotation; None where that is not known.
    """

    rows: TokenRows
    distances: NDArray[np.float64]
    is_wrong: NDArray[np.bool_]
    positions: NDArray[np.int64]
    threshold: Threshold | None = None
    known: UnrotatedK | None = None

    @classmethod
    def of(cls, rows: TokenRows) -> PositionVerdicts:
        """Nothing is known yet."""
        return cls(
            rows=rows,
            distances=np.full(len(rows), -1.0),
            is_wrong=np.zeros(len(rows), dtype=np.bool_),
            positions=np.full(len(rows), NOT_TOLD, dtype=np.int64),
        )

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """Rows that nothing has judged, shape [n], bool."""
        return self.distances < 0
