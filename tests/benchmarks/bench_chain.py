"""`chain` and the audit by chains: seconds at several sizes, which should grow no faster than these.

Run: python tests/benchmarks/bench_chain.py [--slots 1000000 3000000 10000000] [--repeats 5]

Builds a pool of requests that share prefixes, in pages of 16 in random order, with every thousandth
record lost. The kernel is first proved on this very input, whose links are known from how it was
built, and the audit by a position that is then broken. Prints the median of repeats.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from kvaudit import api
from kvaudit.backends.cpu import CpuBackend
from kvaudit.constants import NO_PREDECESSOR, PREDECESSOR_UNREACHABLE, RECORD_POSITION, LaunchTag
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.snapshot import Snapshot
from kvaudit.kernels.chain.numba_cpu import launch_chain

PAGE_SIZE = 16
PREFIX, SUFFIX, REQUESTS_A_PREFIX = 256, 256, 6
LOST_EVERY = 1000
RECORD_BYTES = 32


def build(num_slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Records of num_slots and the padding slot, shape [n, 4], and what each slot follows, [n]."""
    rng = np.random.default_rng(0)
    pages = rng.permutation(num_slots // PAGE_SIZE)
    slots = (pages[:, None] * PAGE_SIZE + np.arange(PAGE_SIZE) + 1).ravel()
    # A prefix, then its suffixes one after another: each goes on from the prefix's last slot.
    group = PREFIX + REQUESTS_A_PREFIX * SUFFIX
    place = np.arange(len(slots)) % group
    suffix_place = (place - PREFIX) % SUFFIX
    positions = np.where(place < PREFIX, place, PREFIX + suffix_place)
    prev_slots = np.concatenate(([NO_PREDECESSOR], slots[:-1]))
    prev_slots[place == 0] = NO_PREDECESSOR
    forks = np.flatnonzero((place >= PREFIX) & (suffix_place == 0))
    prev_slots[forks] = slots[forks - place[forks] + PREFIX - 1]
    starts = np.flatnonzero((place == 0) | ((place >= PREFIX) & (suffix_place == 0)))
    records = np.zeros((num_slots + 1, 4), dtype=np.int64)
    CpuBackend().write_records(
        records=records,
        write_offsets=np.append(starts, len(slots)),
        write_seed_slot_indices=prev_slots[starts],
        input_ids=rng.integers(0, 1 << 40, len(slots)),
        positions=positions,
        out_cache_loc=slots,
        real_kv_hashes=np.zeros(len(slots), dtype=np.uint64),
        tag=LaunchTag.TAIL_K_FULL,
    )
    follows = np.zeros(num_slots + 1, dtype=np.int64)
    follows[slots] = prev_slots
    lost = slots[::LOST_EVERY]
    records[lost] = 0
    follows[np.isin(follows, lost)] = PREDECESSOR_UNREACHABLE
    return records, follows


def joined(records: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """What each of the slots follows."""
    prev_slots = np.empty_like(slots)
    launch_chain(records.view(np.uint64), slots, prev_slots, np.zeros(1, dtype=np.int64))
    return prev_slots


def pool_of(records: np.ndarray) -> Dataset:
    """The records as a snapshot that nothing says anything of."""
    snapshot = Snapshot(
        slots=np.arange(len(records), dtype=np.int64),
        num_slots=len(records),
        page_size=PAGE_SIZE,
        canary={"k.tail": ArrayColumn(name="canary.k.tail", values=records)},
    )
    return Dataset(pools=[AuditedPool(snapshot=snapshot)])


def prove(records: np.ndarray, follows: np.ndarray, slots: np.ndarray) -> None:
    """The links are those of the build, and the audit finds one broken position and nothing else."""
    assert (joined(records, slots) == follows[slots]).all()
    damaged = records.copy()
    broken = slots[follows[slots] > 0][-1]
    damaged[broken, RECORD_POSITION] += 5
    report = api.audit(pool_of(damaged), backend="cpu")
    assert [row.slot for row in report.violations] == [broken]


def median_s(run: Callable[[], object], repeats: int) -> float:
    """The median of wall times."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print("     slots     chain  ns a slot      GB/s     audit  ns a slot")
    for num_slots in arguments.slots:
        records, follows = build(num_slots)
        slots = np.flatnonzero(records.any(axis=1))
        prove(records, follows, slots)
        dataset = pool_of(records)
        chain_s = median_s(lambda r=records, s=slots: joined(r, s), arguments.repeats)
        audit_s = median_s(lambda d=dataset: api.audit(d, backend="cpu"), arguments.repeats)
        print(
            f"{num_slots:>10} {chain_s:>7.3f} s {chain_s / num_slots * 1e9:>10.1f}"
            f" {RECORD_BYTES * num_slots / chain_s / 1e9:>9.2f}"
            f" {audit_s:>7.3f} s {audit_s / num_slots * 1e9:>10.1f}"
        )
    print("GB/s are of 32-byte records")


if __name__ == "__main__":
    main()
