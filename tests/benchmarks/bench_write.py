"""Entries a second of `write` on the CPU, requests of a few tokens, as a step stamps them.

    python tests/benchmarks/bench_write.py [million entries]

Proof first: the same records and rows as the reference on a part of the input.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from measurement import machine_line, measure, read_timing
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.kernels.write import numba_cpu, reference

REQUEST_TOKENS = 64
ENTRY_BYTES = 4 * 8 + 32
SAMPLED_REQUESTS = 200
NO_VALUES = np.zeros(0, dtype=np.uint64)


def written(
    implementation: Any, num_requests: int, slots: NDArray[np.int64], records: NDArray[np.uint64]
) -> list[NDArray[Any]]:
    """Stamp so many requests into the records; everything a launch writes."""
    num_entries = num_requests * REQUEST_TOKENS
    tokens = np.arange(num_entries, dtype=np.uint64) % np.uint64(150_001)
    positions = (np.arange(num_entries) % REQUEST_TOKENS).astype(np.uint64)
    ring = np.zeros((16, 8), dtype=np.uint64)
    write_index = np.zeros(1, dtype=np.int32)
    counters = np.zeros(2, dtype=np.int64)
    implementation.launch_write(
        np.arange(num_requests + 1) * REQUEST_TOKENS,
        np.full(num_requests, -1),
        np.array([num_requests], dtype=np.int32),
        tokens,
        positions,
        slots[:num_entries],
        tokens,
        positions,
        NO_VALUES,
        np.ones(1, dtype=np.int32),
        records,
        ring,
        write_index,
        counters[:1],
        counters[1:],
        int(LaunchTag.TAIL_K_FULL),
    )
    return [records, ring, write_index, counters]


def main() -> None:
    """Print one line."""
    num_requests = int(float(sys.argv[1] if len(sys.argv) > 1 else 4) * 2**20) // REQUEST_TOKENS
    num_entries = num_requests * REQUEST_TOKENS
    slots = 1 + np.random.default_rng(3).permutation(num_entries)
    records = np.zeros((num_entries + 1, 4), dtype=np.uint64)
    sampled = min(SAMPLED_REQUESTS, num_requests)
    proofs = [
        written(each, sampled, slots, np.zeros_like(records)) for each in (numba_cpu, reference)
    ]
    for got, wanted in zip(*proofs, strict=True):
        np.testing.assert_array_equal(got, wanted)
    timing = measure(lambda: written(numba_cpu, num_requests, slots, records))
    read = read_timing(records.view(np.uint8))
    gigabytes = num_entries * ENTRY_BYTES / 1e9
    print(f"write: {num_entries} entries, slots at random, one thread, {machine_line()}")
    print(
        f"{timing.per_second(num_entries / 1e6)} M entries/s, "
        f"{timing.per_second(gigabytes)} GB/s of {ENTRY_BYTES} B an entry, "
        f"parallel read {read.per_second(records.nbytes / 1e9)} GB/s"
    )


if __name__ == "__main__":
    main()
