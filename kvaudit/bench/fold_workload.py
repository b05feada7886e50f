"""`fold` of every slot of a pool, in chain order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.bench.machine import Direction, Machine
from kvaudit.bench.options import Op, RealKv
from kvaudit.bench.pool import BenchPool
from kvaudit.bench.workload import (
    UNWRITTEN,
    HostArrays,
    PlacedArrays,
    Sample,
    sampled_runs,
    source_words,
)
from kvaudit.constants import WORD_BYTES

# The slot comes in, the hash goes out.
_INDEX_AND_HASH_BYTES = 16


class FoldWorkload:
    """Slots of one source.

    Args:
        pool: the pool.
        real_kv: the mode.
        read_bytes: bytes of a slot that it folds.
        slots: slots to fold, shape [n], int64; None = all of the pool's entries.
    """

    op = Op.FOLD
    direction: Direction = "read"

    def __init__(
        self,
        pool: BenchPool,
        *,
        real_kv: RealKv,
        read_bytes: int,
        slots: NDArray[np.int64] | None = None,
    ) -> None:
        self.real_kv = real_kv
        self._pool = pool
        self._slots = pool.slots if slots is None else slots
        self._layout = (pool.page_size, pool.slot_bytes, read_bytes)
        self.num_entries = len(self._slots)
        self.bytes_per_entry = read_bytes + _INDEX_AND_HASH_BYTES

    def inputs(self) -> dict[str, NDArray[Any]]:
        """What a launch reads, by name."""
        return {"source_bytes": self._pool.kv, "slots": self._slots}

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Fresh hashes."""
        return {"source_hashes": np.full(self.num_entries, UNWRITTEN, dtype=np.uint64)}

    def launch(self, machine: Machine, arrays: PlacedArrays) -> None:
        """Enqueue the launch."""
        machine.kernels.launch_fold(
            arrays["source_bytes"], arrays["slots"], arrays["source_hashes"], *self._layout
        )

    def engine_launch(self, arrays: PlacedArrays) -> None:
        """Enqueue the engine-shaped launch."""
        from kvaudit.bench.kernels.engine_launch import launch_engine_fold

        page_size, num_bytes_per_token, read_bytes = self._layout
        launch_engine_fold(
            source_words(arrays),
            arrays["slots"],
            arrays["source_hashes"],
            page_size,
            num_bytes_per_token // WORD_BYTES,
            read_bytes // WORD_BYTES,
        )

    def observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """Every hash."""
        return {"source_hashes": outputs["source_hashes"]}

    def engine_observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """Every hash."""
        return self.observed(outputs)

    def sample(self) -> Sample:
        """Some of the slots, of the same source."""
        read_bytes = self._layout[-1]
        sampled = sampled_runs(
            self.num_entries,
            steps_per_entry=read_bytes // WORD_BYTES,
            seed=self._pool.seed,
        )
        part = FoldWorkload(
            self._pool, real_kv=self.real_kv, read_bytes=read_bytes, slots=self._slots[sampled]
        )
        return Sample(
            workload=part,
            expected=lambda outputs: {"source_hashes": outputs["source_hashes"][sampled]},
        )
