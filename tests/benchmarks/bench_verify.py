"""Entries a second of `verify` on the CPU, pages in random order.

    python tests/benchmarks/bench_verify.py [million entries]

Proof first: planted damage is found and nothing else. Target: 4 M entries, pages of 16, at least
60 M entries/s on two cores.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from measurement import machine_line, measure, read_timing
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.kernels.verify import numba_cpu, reference
from kvaudit.kernels.write import numba_cpu as write_kernels

PAGE_SIZE = 16
REQUEST_TOKENS = 4096
ENTRY_BYTES = 4 * 8 + 4 + 2 * 32
SAMPLED_ENTRIES = 20_000
NO_HASHES = np.zeros(0, dtype=np.uint64)


def one(value: int, dtype: type[np.generic]) -> NDArray[Any]:
    """A counter."""
    return np.array([value], dtype=dtype)


class World:
    """Stamped records and the plan that fits them.

    Fields:
        records: shape [num_slots, 4], uint64.
        slots, prevs: shape [n], int64; tokens, positions: shape [n], uint64.
    """

    def __init__(self, num_entries: int) -> None:
        generator = np.random.default_rng(2)
        pages = 1 + generator.permutation(num_entries // PAGE_SIZE)
        self.slots = (pages[:, None] * PAGE_SIZE + np.arange(PAGE_SIZE)).ravel()
        self.tokens = generator.integers(0, 150_000, num_entries).astype(np.uint64)
        self.positions = (np.arange(num_entries) % REQUEST_TOKENS).astype(np.uint64)
        self.prevs = np.concatenate([[-1], self.slots[:-1]])
        self.prevs[::REQUEST_TOKENS] = -1
        self.records = np.zeros((num_entries + PAGE_SIZE, 4), dtype=np.uint64)
        self._stamp()

    def _stamp(self) -> None:
        num_entries = self.slots.shape[0]
        offsets = np.append(np.arange(0, num_entries, REQUEST_TOKENS), num_entries)
        num_requests = offsets.shape[0] - 1
        write_kernels.launch_write(
            offsets,
            np.full(num_requests, -1),
            one(num_requests, np.int32),
            self.tokens,
            self.positions,
            self.slots,
            NO_HASHES,
            NO_HASHES,
            NO_HASHES,
            one(1, np.int32),
            self.records,
            np.zeros((0, 8), dtype=np.uint64),
            one(0, np.int32),
            one(0, np.int64),
            one(0, np.int64),
            int(LaunchTag.TAIL_K_FULL),
        )

    def reason_bits(self, implementation: Any, num_entries: int) -> NDArray[np.uint32]:
        """Reason bits of the first entries."""
        bits = np.zeros(num_entries, dtype=np.uint32)
        implementation.launch_verify(
            self.records,
            self.slots[:num_entries],
            self.tokens[:num_entries],
            self.positions[:num_entries],
            self.prevs[:num_entries],
            one(num_entries, np.int32),
            one(1, np.int32),
            NO_HASHES,
            bits,
            np.zeros((0, 8), dtype=np.uint64),
            one(0, np.int32),
            one(0, np.int64),
            one(0, np.int64),
            int(LaunchTag.TAIL_K_FULL),
            True,
        )
        return bits


def prove(world: World) -> None:
    """Damage is found as by the reference, and a clean world is clean."""
    sampled = min(SAMPLED_ENTRIES, world.slots.shape[0])
    damaged_slot = world.slots[sampled // 2]
    world.records[damaged_slot, 0] ^= np.uint64(1)
    found = world.reason_bits(numba_cpu, sampled)
    np.testing.assert_array_equal(found, world.reason_bits(reference, sampled))
    assert np.flatnonzero(found).tolist() == [sampled // 2, sampled // 2 + 1]
    world.records[damaged_slot, 0] ^= np.uint64(1)
    assert not world.reason_bits(numba_cpu, world.slots.shape[0]).any()


def main() -> None:
    """Print one line."""
    num_entries = int(float(sys.argv[1] if len(sys.argv) > 1 else 4) * 2**20)
    world = World(num_entries)
    prove(world)
    read = read_timing(world.records.view(np.uint8))
    verified = measure(lambda: world.reason_bits(numba_cpu, num_entries))
    gigabytes = num_entries * ENTRY_BYTES / 1e9
    print(f"verify: {num_entries} entries, pages of {PAGE_SIZE} at random, {machine_line()}")
    print(
        f"{verified.per_second(num_entries / 1e6)} M entries/s, "
        f"{verified.core / num_entries * 1e9:.1f} core ns an entry, "
        f"{verified.per_second(gigabytes)} GB/s of {ENTRY_BYTES} B an entry, "
        f"parallel read {read.per_second(world.records.nbytes / 1e9)} GB/s"
    )


if __name__ == "__main__":
    main()
