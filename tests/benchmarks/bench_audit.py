"""`verify` of a mapped snapshot: from the map to the verdict, against the in-memory fold rate.

Run: python tests/benchmarks/bench_audit.py [--gib 4] [--layers 32] [--bytes-per-token 1024]

Builds a stamped pool in pages of 16 in random order, proves that the audit finds it clean and
finds one flipped bit, then prints the median of repeats. Two shapes matter: many layers (an 8B
model: 64 columns of 1 KiB a slot) and many slots (--layers 1 --bytes-per-token 512: 4 M slots).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from kvaudit import api
from kvaudit.backends.cpu import CpuBackend
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.runner.stamp import stamp

PAGE_SIZE = 16
NUM_SEQUENCES = 64
REPEATS = 5

# Runs in a process of its own: its memory is then the audit's alone.
_MEASURED_RUN = """
import json, re, sys, threading, time
from kvaudit import api

peak, done = 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.005):
        status = open("/proc/self/status").read()
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]))
threading.Thread(target=watch, daemon=True).start()
runs = []
for _ in range(int(sys.argv[2])):
    started = time.perf_counter()
    report = api.audit(api.open([sys.argv[1]]), backend="cpu").to_dict()
    runs.append({"verdict": report["verdict"], "wall_s": time.perf_counter() - started,
                 **report["timing"]})
done.set()
print(json.dumps({"runs": runs, "peak_anonymous_kib": peak}))
"""


def build_pool(*, num_slots: int, num_layers: int, bytes_per_token: int) -> AuditedPool:
    """A pool whose sequences use every page but the first, in random order."""
    rng = np.random.default_rng(0)
    first_slots = rng.permutation(np.arange(1, num_slots // PAGE_SIZE)) * PAGE_SIZE
    slots = (first_slots[:, None] + np.arange(PAGE_SIZE)).reshape(-1)
    bounds = np.linspace(0, len(first_slots), NUM_SEQUENCES + 1).astype(np.int64) * PAGE_SIZE
    sequences = Sequences(
        request_ids=[f"r{number}" for number in range(NUM_SEQUENCES)],
        token_offsets=bounds,
        tokens=rng.integers(0, 150_000, len(slots)),
        slot_offsets=bounds,
        slots=slots,
        kv_lens=np.diff(bounds),
        start_positions=np.zeros(NUM_SEQUENCES, dtype=np.int64),
        prompt_lens=np.full(NUM_SEQUENCES, -1, dtype=np.int64),
        states=[None] * NUM_SEQUENCES,
        extra_keys=[None] * NUM_SEQUENCES,
    )
    names = [f"kv.{half}.{layer}" for layer in range(num_layers) for half in "kv"]
    block = rng.integers(0, 256, (num_slots, bytes_per_token), dtype=np.uint8)
    snapshot = Snapshot(
        slots=np.arange(num_slots, dtype=np.int64),
        num_slots=num_slots,
        page_size=PAGE_SIZE,
        # One block of random bytes serves every column: the file holds each of them in full.
        kv={
            name: ArrayKvColumn(name=name, data=block, read_bytes=bytes_per_token) for name in names
        },
    )
    pool = AuditedPool(snapshot=snapshot, sequences=(sequences,))
    return AuditedPool(
        snapshot=stamp(pool, backend=CpuBackend(), combined=names), sequences=(sequences,)
    )


def digests_only(snapshot: Snapshot) -> Snapshot:
    """The same dump with digests in place of bytes."""
    digests = {
        name: ArrayColumn(name=f"digest.{name.removeprefix('kv.')}", values=column.read())
        for name, column in snapshot.stamped.items()
    }
    return replace(snapshot, kv={}, digests=digests)


def prove(pool: AuditedPool) -> None:
    """The audit finds one flipped bit of this very pool, and nothing else."""
    name, column = next(reversed(pool.snapshot.kv.items()))
    data = column.read_rows(0, column.num_rows).copy()
    data[PAGE_SIZE + 1, 5] ^= 1
    flipped = ArrayKvColumn(name=name, data=data, read_bytes=column.read_bytes)
    damaged = replace(pool.snapshot, kv={**pool.snapshot.kv, name: flipped})
    dataset = Dataset(pools=[AuditedPool(snapshot=damaged, sequences=pool.sequences)])
    report = api.audit(dataset, backend="cpu")
    slots = {row.slot for row in report.violations}
    assert slots == {PAGE_SIZE + 1}, slots


def in_memory_fold_rate(snapshot: Snapshot) -> float:
    """10^9 bytes a second of the fold over arrays in memory, all columns, median of repeats."""
    backend = CpuBackend()
    rows = np.arange(snapshot.num_rows, dtype=np.int64)
    rates = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        folded = 0
        for column in snapshot.kv.values():
            backend.fold(column, rows)
            folded += column.read_bytes * len(rows)
        rates.append(folded / (time.perf_counter() - started) / 1e9)
    return statistics.median(rates)


def measured(folder: Path) -> dict:
    """Verdicts, times and the peak of anonymous memory of audits in a fresh process."""
    output = subprocess.run(
        [sys.executable, "-c", _MEASURED_RUN, str(folder), str(REPEATS)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    result = json.loads(output)
    assert {run["verdict"] for run in result["runs"]} == {"clean"}, result
    return result


def write(folder: Path, pool: AuditedPool) -> int:
    """Write a pool and its sequences; returns the size of the snapshot in bytes."""
    folder.mkdir()
    write_snapshot(folder / "full.snapshot.arrow", pool.snapshot)
    write_sequences(folder / "full.sequences.arrow", pool.sequences[0])
    return (folder / "full.snapshot.arrow").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=4.0)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--bytes-per-token", type=int, default=1024)
    arguments = parser.parse_args()
    bytes_a_slot = 2 * arguments.layers * arguments.bytes_per_token
    num_slots = int(arguments.gib * (1 << 30)) // bytes_a_slot // PAGE_SIZE * PAGE_SIZE
    pool = build_pool(
        num_slots=num_slots, num_layers=arguments.layers, bytes_per_token=arguments.bytes_per_token
    )
    prove(pool)
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        size = write(Path(scratch, "bytes"), pool)
        print(f"{num_slots} slots, {2 * arguments.layers} columns, {size / 2**30:.2f} GiB on disk")
        full = measured(Path(scratch, "bytes"))
        fold_rate = in_memory_fold_rate(pool.snapshot)
        snapshot = digests_only(pool.snapshot)
        size = write(
            Path(scratch, "digests"), AuditedPool(snapshot=snapshot, sequences=pool.sequences)
        )
        digests = measured(Path(scratch, "digests"))
    rate = statistics.median(run["gb_per_s"] for run in full["runs"])
    budget = 300 * 1024 + 64 * num_slots / 1024
    print(f"in-memory fold     {fold_rate:7.2f} GB/s")
    print(f"map to verdict     {rate:7.2f} GB/s   {rate / fold_rate:.2f} of the fold")
    print(
        f"anonymous memory   {full['peak_anonymous_kib'] / 1024:7.0f} MiB    of {budget / 1024:.0f}"
    )
    wall = statistics.median(run["wall_s"] for run in digests["runs"])
    print(f"digests only       {wall:7.2f} s      {size / 2**20:.0f} MiB on disk")


if __name__ == "__main__":
    main()
