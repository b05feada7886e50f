"""Entries a second of `plan` on the CPU, with a map and a token pool.

    python tests/benchmarks/bench_plan.py [batch rows]

Proof first: the same plan as the reference on a part of the batch.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from measurement import machine_line, measure, read_timing
from numpy.typing import NDArray

from kvaudit.kernels.plan import numba_cpu, reference

MAX_LEN = 8192
ENTRY_BYTES = 2 * 4 + 2 * 8 + 4 * 8
SAMPLED_ROWS = 3


class Batch:
    """Tables and a batch of prefixes.

    Fields:
        table, pool: shape [num_reqs, MAX_LEN], int32; swa_map: shape [num_slots], int64.
        prefixes: shape [num_rows], int64.
    """

    def __init__(self, num_rows: int) -> None:
        generator = np.random.default_rng(4)
        num_slots = (num_rows + 1) * MAX_LEN
        self.table = generator.permutation(num_slots).astype(np.int32).reshape(-1, MAX_LEN)
        self.pool = generator.integers(0, 150_000, self.table.shape, dtype=np.int32)
        self.swa_map = generator.permutation(num_slots)
        self.prefixes = generator.integers(MAX_LEN // 2, MAX_LEN, num_rows)

    def num_entries(self, num_rows: int) -> int:
        """Entries that the first rows ask for."""
        return int(self.prefixes[:num_rows].sum())

    def outputs(self, num_rows: int) -> list[NDArray[Any]]:
        """The arrays of a plan of the first rows, their memory touched."""
        capacity = self.num_entries(num_rows)
        columns = [
            np.full(capacity, 7, dtype) for dtype in (np.int64, np.uint64, np.uint64, np.int64)
        ]
        flags = [np.zeros(1, np.int32) for _ in range(3)]
        return [*columns, *flags, np.zeros(num_rows + 1, np.int64), np.zeros(num_rows, np.int64)]

    def planned(
        self, implementation: Any, num_rows: int, outputs: list[NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """Plan the first rows into the outputs, which are returned."""
        columns, flags, (offsets, seeds) = outputs[:4], outputs[4:7], outputs[7:]
        implementation.launch_plan(
            np.arange(1, num_rows + 1),
            self.prefixes[:num_rows],
            np.ones(num_rows, dtype=np.int64),
            self.table,
            self.swa_map,
            self.pool,
            self.prefixes[:num_rows],
            *columns,
            flags[0],
            flags[1],
            offsets,
            seeds,
            flags[2],
            0,
            0,
        )
        return outputs


def main() -> None:
    """Print one line."""
    num_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    batch = Batch(num_rows)
    sampled = min(SAMPLED_ROWS, num_rows)
    proofs = [
        batch.planned(each, sampled, batch.outputs(sampled)) for each in (numba_cpu, reference)
    ]
    for got, wanted in zip(*proofs, strict=True):
        np.testing.assert_array_equal(got, wanted)
    outputs = batch.outputs(num_rows)
    timing = measure(lambda: batch.planned(numba_cpu, num_rows, outputs))
    read = read_timing(batch.swa_map.view(np.uint8))
    num_entries = batch.num_entries(num_rows)
    gigabytes = num_entries * ENTRY_BYTES / 1e9
    print(f"plan: {num_entries} entries of {num_rows} rows, {machine_line()}")
    print(
        f"{timing.per_second(num_entries / 1e6)} M entries/s, "
        f"{timing.per_second(gigabytes)} GB/s of {ENTRY_BYTES} B an entry, "
        f"parallel read {read.per_second(batch.swa_map.nbytes / 1e9)} GB/s"
    )


if __name__ == "__main__":
    main()
