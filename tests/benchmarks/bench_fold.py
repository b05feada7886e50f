"""Fold rate on the CPU beside the parallel read rate of the same memory.

    python tests/benchmarks/bench_fold.py [MiB]

Proof first: a sample of slots against the reference. Target: mode ALL, 1 KiB a slot, 1 GiB, at
least 0.35 of the read rate.
"""

from __future__ import annotations

import sys

import numpy as np
from measurement import machine_line, measure, read_timing
from numpy.typing import NDArray

from kvaudit.kernels.fold import numba_cpu, reference

SLOT_BYTES = (1024, 384, 128)
PAGE_SIZE = 16
SAMPLED_SLOTS = 64


def prove(source: NDArray[np.uint8], slots: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """Compare a sample of the hashes with the reference, on the very input."""
    sample = np.linspace(0, slots.shape[0] - 1, SAMPLED_SLOTS).astype(np.int64)
    wanted = np.zeros(SAMPLED_SLOTS, dtype=np.uint64)
    slot_bytes = source.shape[1]
    reference.launch_fold(source, slots[sample], wanted, 1, slot_bytes, slot_bytes)
    np.testing.assert_array_equal(hashes[sample], wanted)


def main() -> None:
    """Print one line a slot size and slot order."""
    num_bytes = int(sys.argv[1] if len(sys.argv) > 1 else 1024) << 20
    generator = np.random.default_rng(1)
    memory = generator.integers(0, 1 << 63, num_bytes // 8, dtype=np.uint64).view(np.uint8)
    print(f"fold: {num_bytes >> 20} MiB, {machine_line()}")
    for slot_bytes in SLOT_BYTES:
        num_slots = num_bytes // slot_bytes // PAGE_SIZE * PAGE_SIZE
        source = memory[: num_slots * slot_bytes].reshape(num_slots, slot_bytes)
        ascending = np.arange(num_slots)
        by_page = generator.permutation(ascending.reshape(-1, PAGE_SIZE)).ravel()
        hashes = np.zeros(num_slots, dtype=np.uint64)
        for order, slots in (("ascending", ascending), (f"pages of {PAGE_SIZE}", by_page)):

            def fold(source: NDArray[np.uint8] = source, slots: NDArray[np.int64] = slots) -> None:
                row_bytes = source.shape[1]
                numba_cpu.launch_fold(source, slots, hashes, 1, row_bytes, row_bytes)  # noqa: B023 - called here

            fold()
            prove(source, slots, hashes)
            read, folded = read_timing(source), measure(fold)
            gigabytes = source.nbytes / 1e9
            print(
                f"{slot_bytes:5} B a slot, {order:12}: fold {folded.per_second(gigabytes)} GB/s, "
                f"read {read.per_second(gigabytes)} GB/s, "
                f"fraction {read.median / folded.median:.2f} (best {read.best / folded.best:.2f}, "
                f"by core time {read.core / folded.core:.2f})"
            )


if __name__ == "__main__":
    main()
