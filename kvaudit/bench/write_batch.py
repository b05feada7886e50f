"""The requests that a `write` is measured on: a part that the reference can judge, and the damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.bench.pool import BenchPool
from kvaudit.bench.workload import MAX_PLANTED, MIN_SAMPLE, RUN_ENTRIES, sampled_runs
from kvaudit.constants import SKIP_WRITE, WORD_BYTES

# Of the reference, for an entry whose slot is not folded.
_STAMP_STEPS = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WriteBatch:
    """Requests as `write` takes them.

    Fields:
        offsets: shape [num_requests + 1], int64.
        seeds: shape [num_requests], int64.
        slots: shape [n], int64.
        tokens, positions: shape [n], uint64.
    """

    offsets: NDArray[np.int64]
    seeds: NDArray[np.int64]
    slots: NDArray[np.int64]
    tokens: NDArray[np.uint64]
    positions: NDArray[np.uint64]

    def part(self, requests: NDArray[np.int64], num_tokens: int) -> tuple[WriteBatch, NDArray[Any]]:
        """The first entries of some of the requests, and which entries of all these are."""
        firsts = self.offsets[requests]
        lengths = np.minimum(self.offsets[requests + 1] - firsts, num_tokens)
        offsets = np.append(0, np.cumsum(lengths))
        entries = np.repeat(firsts - offsets[:-1], lengths) + np.arange(offsets[-1])
        part = WriteBatch(
            offsets=offsets,
            seeds=self.seeds[requests],
            slots=self.slots[entries],
            tokens=self.tokens[entries],
            positions=self.positions[entries],
        )
        return part, entries

    def damage(self, entries: NDArray[np.int64], *, num_slots: int) -> None:
        """A fault at some of the entries, in turn: a wrong position, a slot to skip, one past the pool.

        Args:
            entries: where faults may be, shape [n], int64.
            num_slots: slots of the pool.
        """
        places = entries[RUN_ENTRIES // 2 :: RUN_ENTRIES]
        for number, entry in enumerate(places[:: -(-len(places) // MAX_PLANTED)]):
            if number % 3 == 0:
                self.positions[entry] += np.uint64(5)
            else:
                self.slots[entry] = SKIP_WRITE if number % 3 == 1 else num_slots


def sampled_requests(pool: BenchPool, read_bytes: int) -> tuple[NDArray[np.int64], int]:
    """Requests, and how many of the first entries of each; as many as `sampled_runs` would take."""
    steps = _STAMP_STEPS + read_bytes // WORD_BYTES
    most = len(sampled_runs(pool.num_entries, steps_per_entry=steps, seed=pool.seed))
    if most == pool.num_entries:
        return np.arange(pool.num_requests), pool.num_entries
    longest = min(int(pool.offsets[1]), MIN_SAMPLE)
    # At least two, so that a head and a chain from a seed are among them.
    num_requests = min(pool.num_requests, max(2, -(-most // longest)))
    first = int(np.random.default_rng(pool.seed).integers(0, pool.num_requests - num_requests + 1))
    return np.arange(first, first + num_requests), -(-most // num_requests)
