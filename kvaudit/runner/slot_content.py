"""What a pool's slots hold, hashed by the run's backend for the rules that ask."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.backend import Backend
from kvaudit.core.snapshot import Snapshot
from kvaudit.kernels.array_forms import frozen
from kvaudit.runner.row_space import RowSpace


class SlotContent:
    """A PoolContent over a snapshot."""

    def __init__(self, snapshot: Snapshot, *, space: RowSpace, backend: Backend) -> None:
        self._snapshot = snapshot
        self._space = space
        self._backend = backend
        self._slot_hashes: dict[str, NDArray[np.uint64]] = {}

    @cached_property
    def _indices(self) -> NDArray[np.int64]:
        """The index of each row in the record array, shape [num_rows], int64."""
        first = self._space.row_shift
        return frozen(np.arange(first, first + self._snapshot.num_rows, dtype=np.int64))

    def slot_hashes(self, buffer: str) -> NDArray[np.uint64]:
        """slot_hash of each row of a record column; see `core.pool_content`."""
        if buffer not in self._slot_hashes:
            records = self._space.records(self._snapshot.canary[buffer])
            hashes = self._backend.slot_hashes(records, self._indices)
            self._slot_hashes[buffer] = frozen(hashes)
        return self._slot_hashes[buffer]

    def source_hashes(self, column: str, rows: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        """Source hash of a column's rows, dumped or recomputed; see `core.pool_content`."""
        dumped = self._snapshot.digests.get(column)
        if dumped is not None:
            digests: NDArray[np.uint64] = dumped.read().view(np.uint64)[rows]
            return digests
        kv_column = self._snapshot.kv.get(column)
        if kv_column is None:
            return None
        ascending, places = np.unique(rows, return_inverse=True)
        return self._backend.fold(kv_column, ascending)[places]

    def kv_bytes(self, column: str, rows: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """The bytes of a column's rows; see `core.pool_content`."""
        kv_column = self._snapshot.kv.get(column)
        if kv_column is None:
            return None
        data = np.empty((len(rows), kv_column.row_bytes), dtype=np.uint8)
        for place, row in enumerate(rows.tolist()):
            data[place] = kv_column.read_rows(row, row + 1)
        return data
