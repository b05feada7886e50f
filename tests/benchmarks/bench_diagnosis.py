"""What a diagnosis costs beyond the kernels, and that it is linear in the slots.

Run: python tests/benchmarks/bench_diagnosis.py [--slots 250000 500000 1000000] [--faults 100]
     [--repeats 3]

Builds a stamped pool in pages of 16 in random order, which sequences and a plan both name: two
expectations a slot. Then it puts faults of all classes on records and bytes into it, each into two
requests of its own, proves that an audit of the clean pool finds nothing and one of the damaged pool
exactly a finding a fault, and times both. What the second takes longer is the diagnosis. Core seconds
stand beside the clock's: other work on the machine hardly moves them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from dataclasses import replace

import numpy as np

from kvaudit import api
from kvaudit.backends.cpu import CpuBackend
from kvaudit.constants import NO_PREDECESSOR
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.plan import PlanDump, PlannedLaunch, VerifyPlan
from kvaudit.core.report import Report
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.inject import inject
from kvaudit.runner.stamp import stamp

PAGE_SIZE = 16
ROW_BYTES = 64
COLUMN = "kv.kv.0"
# Classes that leave the tables as they are, and concern a few requests.
CLASSES = (
    *("KV201", "KV202", "KV203", "KV204", "KV205", "KV206", "KV208", "KV209"),
    *("KV301", "KV302", "KV303", "KV304", "KV310", "KV311"),
)


def build_pool(num_slots: int, *, num_groups: int) -> AuditedPool:
    """A clean pool; every file of sequences has two requests, and the plan has all of them."""
    rng = np.random.default_rng(0)
    num_requests = 2 * num_groups
    pages_each = num_slots // PAGE_SIZE // num_requests
    pages = rng.permutation(np.arange(1, 1 + num_requests * pages_each))
    slots = (pages[:, None] * PAGE_SIZE + np.arange(PAGE_SIZE)).reshape(num_requests, -1)
    tokens = rng.integers(1, 150_000, slots.shape)
    files = [
        _sequences(group, slots[2 * group : 2 * group + 2], tokens[2 * group : 2 * group + 2])
        for group in range(num_groups)
    ]
    rows = (len(pages) + 2) * PAGE_SIZE
    data = rng.integers(1, 256, (rows, ROW_BYTES), dtype=np.uint8)
    column = ArrayKvColumn(name=COLUMN, data=data, read_bytes=ROW_BYTES)
    bare = Snapshot(
        slots=np.arange(rows, dtype=np.int64),
        num_slots=rows,
        page_size=PAGE_SIZE,
        kv={COLUMN: column},
    )
    stamped = stamp(
        AuditedPool(snapshot=bare, sequences=files), backend=CpuBackend(), combined=[COLUMN]
    )
    snapshot = replace(
        stamped,
        canary={name: _read(column) for name, column in stamped.canary.items()},
        stamped={name: _read(column) for name, column in stamped.stamped.items()},
    )
    return AuditedPool(snapshot=snapshot, sequences=files, plans=(_plan(slots, tokens),))


def _read(column: object) -> ArrayColumn:
    return ArrayColumn(name=column.name, values=column.read())


def _sequences(group: int, slots: np.ndarray, tokens: np.ndarray) -> Sequences:
    count, length = slots.shape
    offsets = np.arange(count + 1, dtype=np.int64) * length
    return Sequences(
        request_ids=[f"g{group}-{number}" for number in range(count)],
        token_offsets=offsets,
        tokens=tokens.ravel(),
        slot_offsets=offsets,
        slots=slots.ravel(),
        kv_lens=np.full(count, length, dtype=np.int64),
        start_positions=np.zeros(count, dtype=np.int64),
        prompt_lens=np.full(count, -1, dtype=np.int64),
        states=[SequenceState.RUNNING] * count,
        extra_keys=[None] * count,
    )


def _plan(slots: np.ndarray, tokens: np.ndarray) -> PlanDump:
    prev_slots = np.roll(slots, 1, axis=1)
    prev_slots[:, 0] = NO_PREDECESSOR
    plan = VerifyPlan(
        verify_slot_indices=slots.ravel(),
        verify_expected_tokens=tokens.ravel(),
        verify_expected_positions=np.tile(np.arange(slots.shape[1], dtype=np.int64), len(slots)),
        verify_prev_slot_indices=prev_slots.ravel(),
        num_valid=slots.size,
    )
    launch = PlannedLaunch(step=0, tags=None, plan=plan, check_verify_expected_token=True)
    return PlanDump(launches=[launch])


def with_faults(pool: AuditedPool, num_faults: int) -> AuditedPool:
    """A copy with faults of each class in turn, each in the requests of one file."""
    files = list(pool.sequences)
    for group in range(num_faults):
        alone = replace(pool, sequences=files[group : group + 1])
        damaged = inject(alone, CLASSES[group % len(CLASSES)], seed=group).pool
        pool = replace(pool, snapshot=damaged.snapshot)
    return pool


def audited(pool: AuditedPool, repeats: int) -> tuple[Report, float, float]:
    """The report, and the medians of the seconds that it took: of the clock, and of all cores."""
    walls, cores = [], []
    for _ in range(repeats):
        started, started_cpu = time.perf_counter(), time.process_time()
        report = api.audit(Dataset(pools=[pool]), backend="cpu")
        walls.append(time.perf_counter() - started)
        cores.append(time.process_time() - started_cpu)
    return report, statistics.median(walls), statistics.median(cores)


def prove(clean: Report, damaged: Report, num_faults: int) -> None:
    """Nothing is found in the clean pool, and each fault, by its rule, in the other."""
    assert not clean.findings, clean.findings
    wanted = Counter(CLASSES[number % len(CLASSES)] for number in range(num_faults))
    found = Counter(finding.rule for finding in damaged.findings)
    assert found == wanted, f"wanted {wanted}, found {found}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, nargs="+", default=[250_000, 500_000, 1_000_000])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    audited(build_pool(4 * PAGE_SIZE * 20, num_groups=2), 1)
    print(
        "     slots  expectations  faults  rows that failed     clean      GB/s  diagnosis"
        "     on cores  us a slot"
    )
    for num_slots in arguments.slots:
        pool = build_pool(num_slots, num_groups=arguments.faults)
        clean, clean_s, clean_cpu_s = audited(pool, arguments.repeats)
        damaged_pool = with_faults(pool, arguments.faults)
        damaged, damaged_s, damaged_cpu_s = audited(damaged_pool, arguments.repeats)
        prove(clean, damaged, arguments.faults)
        cpu_s = damaged_cpu_s - clean_cpu_s
        num_entries = sum(part.slots.size for part in pool.sequences) * 2
        print(
            f"{pool.snapshot.num_rows:>10} {num_entries:>13} {arguments.faults:>7}"
            f" {damaged.violations_total:>17} {clean_s:>7.3f} s"
            f" {clean.timing.kv_bytes / clean_s / 1e9:>9.2f}"
            f" {damaged_s - clean_s:>8.3f} s {cpu_s:>10.3f} s {cpu_s / num_slots * 1e6:>10.3f}"
        )
    print("GB/s are of KV, in an audit of the clean pool")


if __name__ == "__main__":
    main()
