"""The port through which rules look at what a pool holds: hashes and bytes of the slots they ask for."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class PoolContent(Protocol):
    """Computes what a rule asks for, when it asks; a clean pool is never asked."""

    def slot_hashes(self, buffer: str) -> NDArray[np.uint64]:
        """slot_hash of each row of a record column such as `k.tail`; kept for the next rule.

        Returns:
            shape [num_rows], uint64, read-only.
        """
        ...

    def source_hashes(self, column: str, rows: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        """Source hash of a KV column's bytes as they are, dumped or recomputed.

        Args:
            column: the column, such as `kv.k.0`.
            rows: rows of the snapshot, shape [n], int64, in any order.

        Returns:
            shape [n], uint64; None where the file has neither digests nor bytes of the column.
        """
        ...

    def kv_bytes(self, column: str, rows: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """The KV bytes of some rows of a column.

        Args:
            column: the column.
            rows: rows of the snapshot, shape [n], int64, in any order.

        Returns:
            shape [n, row_bytes], uint8; None where the file has digests alone.
        """
        ...
