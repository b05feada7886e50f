"""Which requests the reference judges, and where they are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.bench.workload import MAX_PLANTED, MIN_SAMPLE, RUN_ENTRIES
from kvaudit.bench.write_batch import WriteBatch, sampled_requests
from kvaudit.constants import SKIP_WRITE
from tests.helpers.bench_pools import pool


def batch(num_requests: int = 4, num_tokens: int = 6) -> WriteBatch:
    """Requests of equal length; entry e is token 100 + e in slot 1 + e."""
    entries = np.arange(num_requests * num_tokens)
    return WriteBatch(
        offsets=np.arange(num_requests + 1) * num_tokens,
        seeds=np.arange(num_requests),
        slots=entries + 1,
        tokens=(entries + 100).astype(np.uint64),
        positions=(entries % num_tokens).astype(np.uint64),
    )


def test_a_part_has_the_first_entries_of_its_requests_and_their_seeds() -> None:
    part, entries = batch().part(np.array([1, 3]), 2)
    assert entries.tolist() == [6, 7, 18, 19]
    assert part.offsets.tolist() == [0, 2, 4]
    assert part.seeds.tolist() == [1, 3]
    assert part.tokens.tolist() == [106, 107, 118, 119]
    assert part.slots.tolist() == [7, 8, 19, 20]
    assert part.positions.tolist() == [0, 1, 0, 1]


def test_a_part_longer_than_its_requests_is_all_of_them() -> None:
    part, entries = batch().part(np.arange(4), 99)
    assert entries.tolist() == list(range(24))
    assert part.offsets.tolist() == batch().offsets.tolist()


def test_faults_are_of_each_kind_apart_from_one_another_and_of_no_other_entry() -> None:
    num_tokens = RUN_ENTRIES * MAX_PLANTED * 2
    plain, damaged = (batch(1, num_tokens) for _ in range(2))
    damaged.damage(np.arange(num_tokens), num_slots=num_tokens + 1)
    moved = np.flatnonzero(damaged.positions != plain.positions)
    skipped = np.flatnonzero(damaged.slots == SKIP_WRITE)
    outside = np.flatnonzero(damaged.slots == num_tokens + 1)
    assert min(len(moved), len(skipped), len(outside)) >= MAX_PLANTED // 3
    hit = np.unique(np.concatenate([moved, skipped, outside]))
    assert len(hit) == len(moved) + len(skipped) + len(outside) == MAX_PLANTED
    assert np.diff(hit).min() >= RUN_ENTRIES
    untouched = np.setdiff1d(np.arange(num_tokens), hit)
    assert (damaged.slots[untouched] == plain.slots[untouched]).all()


@pytest.mark.parametrize(("num_entries", "read_bytes"), [(2048, 64), (1 << 13, 8192)])
def test_at_least_two_requests_are_judged_and_no_more_than_the_reference_can(
    num_entries: int, read_bytes: int
) -> None:
    built = pool(num_entries, bytes_per_token=read_bytes, request_tokens=64)
    requests, num_tokens = sampled_requests(built, read_bytes)
    assert len(requests) >= 2
    assert 0 <= requests[0] <= requests[-1] < built.num_requests
    assert len(requests) * min(num_tokens, 64) <= max(num_entries // 2, MIN_SAMPLE)
