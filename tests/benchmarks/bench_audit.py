"""`verify` of a mapped snapshot: from the map to the verdict, against the in-memory fold rate.

Run: python tests/benchmarks/bench_audit.py [--gib 4] [--layers 32] [--bytes-per-token 1024]
     [--backend cuda] [--folder /dev/shm] [--repeats 5]

Builds a stamped pool in pages of 16 in random order, proves that the audit finds it clean and
finds one flipped bit, then prints the median of repeats. Two shapes matter: many layers (an 8B
model: 64 columns of 1 KiB a slot) and many slots (--layers 1 --bytes-per-token 512: 4 M slots).

Each repeat audits in a fresh process, then folds in this one, so that both see the same machine.
Core seconds a byte are printed beside the rates: other work on the machine hardly moves them.

With --backend cuda it also prints the device memory, and how long the whole command takes, start-up
included, on each backend and on the one that `auto` picks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
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
# More than a last-level cache holds: what is folded in memory comes from memory.
MEMORY_BYTES = 512 << 20

# Runs in a process of its own: its memory is then the audit's alone. The second run is measured: it
# maps the files anew, but has its kernels. Device memory is watched in the first, which it disturbs.
_MEASURED_RUN = """
import json, re, sys, threading, time
from kvaudit import api

folder, backend = sys.argv[1:]
peak, device_peak, done = 0, 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.005):
        status = open("/proc/self/status").read()
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]))
def watch_device(stopped):
    global device_peak
    from numba import cuda
    memory = cuda.current_context().get_memory_info
    free = memory().free
    while not stopped.wait(0.002):
        device_peak = max(device_peak, free - memory().free)
threading.Thread(target=watch, daemon=True).start()
for is_measured in (False, True):
    stopped = threading.Event()
    if backend == "cuda" and not is_measured:
        watcher = threading.Thread(target=watch_device, args=[stopped])
        watcher.start()
        time.sleep(1)
    started, started_cpu = time.perf_counter(), time.process_time()
    report = api.audit(api.open([folder]), backend=backend).to_dict()
    wall_s, cpu_s = time.perf_counter() - started, time.process_time() - started_cpu
    stopped.set()
done.set()
timing = report["timing"]
print(json.dumps({"verdict": report["verdict"], "wall_s": wall_s, "cpu_s": cpu_s,
                  "seconds": timing["seconds"], "kv_bytes": timing["kv_bytes"],
                  "peak_anonymous_kib": peak, "peak_device_bytes": device_peak,
                  "device_bytes": report["backend"]["device_bytes"]}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One audit, or one pass of the fold.

    Fields:
        wall_s: seconds of all of it, opening the files too.
        cpu_s: the same on all cores together.
        seconds: what the report says: from the map to the verdict.
        kv_bytes: KV bytes folded.
        peak_anonymous_kib: the most anonymous memory that the process held.
        peak_device_bytes: the most device memory that went while it ran.
        device_bytes: what the report says of that.
    """

    wall_s: float
    cpu_s: float
    seconds: float
    kv_bytes: int
    peak_anonymous_kib: int = 0
    peak_device_bytes: int = 0
    device_bytes: int = 0

    @property
    def rate(self) -> float:
        """10^9 bytes a second, from the map to the verdict."""
        return self.kv_bytes / self.seconds / 1e9

    @property
    def core_ps(self) -> float:
        """Core picoseconds a byte."""
        return self.cpu_s / self.kv_bytes * 1e12


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
    num_blocks = min(len(names), -(-MEMORY_BYTES // (num_slots * bytes_per_token)))
    blocks = rng.integers(0, 256, (num_blocks, num_slots, bytes_per_token), dtype=np.uint8)
    snapshot = Snapshot(
        slots=np.arange(num_slots, dtype=np.int64),
        num_slots=num_slots,
        page_size=PAGE_SIZE,
        # A few blocks of random bytes serve all columns: the file holds each column in full.
        kv={
            name: ArrayKvColumn(
                name=name, data=blocks[number % num_blocks], read_bytes=bytes_per_token
            )
            for number, name in enumerate(names)
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


def prove(pool: AuditedPool, backend: str) -> None:
    """The audit finds one flipped bit of this very pool, and nothing else."""
    name, column = next(reversed(pool.snapshot.kv.items()))
    data = column.read_rows(0, column.num_rows).copy()
    data[PAGE_SIZE + 1, 5] ^= 1
    flipped = ArrayKvColumn(name=name, data=data, read_bytes=column.read_bytes)
    damaged = replace(pool.snapshot, kv={**pool.snapshot.kv, name: flipped})
    dataset = Dataset(pools=[AuditedPool(snapshot=damaged, sequences=pool.sequences)])
    report = api.audit(dataset, backend=backend)
    slots = {row.slot for row in report.violations}
    assert slots == {PAGE_SIZE + 1}, slots


def in_memory_fold(snapshot: Snapshot) -> Run:
    """The fold over arrays in memory, all columns once."""
    backend = CpuBackend()
    rows = np.arange(snapshot.num_rows, dtype=np.int64)
    started, started_cpu = time.perf_counter(), time.process_time()
    for column in snapshot.kv.values():
        backend.fold(column, rows)
    wall_s, cpu_s = time.perf_counter() - started, time.process_time() - started_cpu
    return Run(
        wall_s=wall_s,
        cpu_s=cpu_s,
        seconds=wall_s,
        kv_bytes=sum(column.read_bytes for column in snapshot.kv.values()) * len(rows),
    )


def audited(folder: Path, backend: str) -> Run:
    """An audit in a fresh process."""
    output = subprocess.run(
        [sys.executable, "-c", _MEASURED_RUN, str(folder), backend],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    result = json.loads(output)
    assert result.pop("verdict") == "clean", result
    return Run(**result)


def whole_command(folder: Path, backend: str) -> tuple[float, dict[str, str]]:
    """Seconds of `kvaudit verify` from its start to its end, and what its report says of the backend."""
    command = [sys.executable, "-m", "kvaudit", "verify", str(folder), "--format", "json"]
    started = time.perf_counter()
    output = subprocess.run(
        [*command, "--backend", backend], check=True, capture_output=True, text=True
    ).stdout
    seconds = time.perf_counter() - started
    return seconds, json.loads(output)["backend"]


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
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--folder", default=".", help="where the files are written for the run")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    bytes_a_slot = 2 * arguments.layers * arguments.bytes_per_token
    num_slots = int(arguments.gib * (1 << 30)) // bytes_a_slot // PAGE_SIZE * PAGE_SIZE
    pool = build_pool(
        num_slots=num_slots, num_layers=arguments.layers, bytes_per_token=arguments.bytes_per_token
    )
    prove(pool, arguments.backend)
    backend, repeats = arguments.backend, range(arguments.repeats)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        folder = Path(scratch, "bytes")
        size = write(folder, pool)
        print(f"{num_slots} slots, {2 * arguments.layers} columns, {size / 2**30:.2f} GiB on disk")
        pairs = [(audited(folder, backend), in_memory_fold(pool.snapshot)) for _ in repeats]
        snapshot = digests_only(pool.snapshot)
        write(Path(scratch, "digests"), AuditedPool(snapshot=snapshot, sequences=pool.sequences))
        digests = [audited(Path(scratch, "digests"), backend) for _ in repeats]
        show(pairs, digests, budget_mib=300 + 64 * num_slots / 2**20)
        if backend == "cuda":
            show_device([audit for audit, _ in pairs])
            show_commands(folder, arguments.repeats)


def show(pairs: list[tuple[Run, Run]], digests: list[Run], *, budget_mib: float) -> None:
    """Print the medians: audits with bytes, each beside its fold, and audits of digests."""
    middle = statistics.median
    audits, folds = zip(*pairs, strict=True)
    ratio = middle(audit.rate / fold.rate for audit, fold in pairs)
    core_ratio = middle(fold.core_ps / audit.core_ps for audit, fold in pairs)
    peak = max(run.peak_anonymous_kib for run in audits) / 1024
    print(
        f"in-memory fold     {middle(run.rate for run in folds):7.2f} GB/s"
        f"   {middle(run.core_ps for run in folds):.0f} core ps/B\n"
        f"map to verdict     {middle(run.rate for run in audits):7.2f} GB/s"
        f"   {middle(run.core_ps for run in audits):.0f} core ps/B,"
        f" {ratio:.2f} of the fold ({core_ratio:.2f} by core time)\n"
        f"anonymous memory   {peak:7.0f} MiB    of {budget_mib:.0f}\n"
        f"digests only       {middle(run.wall_s for run in digests):7.2f} s"
        f"      {middle(run.cpu_s for run in digests):.2f} core s"
    )


def show_device(audits: list[Run]) -> None:
    """Print the device memory: what the report says, and what went on the device meanwhile."""
    reported = max(run.device_bytes for run in audits) / 2**20
    seen = max(run.peak_device_bytes for run in audits) / 2**20
    print(f"device memory      {reported:7.0f} MiB    {seen:.0f} MiB less free on the device")


def show_commands(folder: Path, repeats: int) -> None:
    """Print the medians of the whole command on each backend, and whether `auto` was right."""
    medians = {}
    for name in ("cpu", "cuda", "auto"):
        runs = [whole_command(folder, name) for _ in range(repeats)]
        medians[name] = statistics.median(seconds for seconds, _ in runs)
        print(f"verify on {name:<9}{medians[name]:7.2f} s      {runs[-1][1]['reason']}")
    ratio = medians["auto"] / min(medians["cpu"], medians["cuda"])
    print(f"auto               {ratio:7.2f} of the better backend's time")


if __name__ == "__main__":
    main()
