"""`diff` of mapped snapshots whose slots all lie elsewhere: against the fold rate, with and without bytes.

Run: python tests/benchmarks/bench_compare.py [--slots 1000000] [--layers 1] [--bytes-per-token 512]
     [--digest-layers 32] [--folder /dev/shm] [--repeats 5]

Builds a stamped pool of requests in pages of 16, and the same content in pages whose order is
another. Proves that the two are clean, that one changed byte of one layer is named, and that of three
tiers the leg that changed it is. Prints the median of repeats.

The fold rate is that of the same kernel over arrays in memory, in the same process, right after each
comparison: both see the same machine. The rate of a comparison counts the bytes of both dumps.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench_audit import PAGE_SIZE, build_pool, digests_only, in_memory_fold

from kvaudit import api
from kvaudit.backends.cpu import CpuBackend
from kvaudit.core.comparison import CompareOptions
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.report import Report
from kvaudit.core.snapshot import PoolKey, Snapshot
from kvaudit.formats.snapshot_writer import write_snapshot


def order_of_pages(num_slots: int, seed: int) -> np.ndarray:
    """The slot that each slot's content comes from; the reserved page stays, no other does."""
    pages = np.arange(1, num_slots // PAGE_SIZE)
    moved = np.roll(np.random.default_rng(seed).permutation(pages), 1)
    return (np.concatenate(([0], moved))[:, None] * PAGE_SIZE + np.arange(PAGE_SIZE)).ravel()


def relocated(snapshot: Snapshot, *, seed: int, tier: str) -> Snapshot:
    """The same content in other slots."""
    order = order_of_pages(snapshot.num_rows, seed)

    def moved(column: object) -> ArrayColumn:
        return ArrayColumn(name=column.name, values=column.read()[order])

    return replace(
        snapshot,
        key=PoolKey(tier=tier),
        canary={name: moved(column) for name, column in snapshot.canary.items()},
        stamped={name: moved(column) for name, column in snapshot.stamped.items()},
        digests={name: moved(column) for name, column in snapshot.digests.items()},
        kv={
            name: replace(column, data=column.read_rows(0, column.num_rows)[order])
            for name, column in snapshot.kv.items()
        },
    )


def with_one_byte_changed(snapshot: Snapshot, name: str, slot: int) -> Snapshot:
    """A copy in which one byte of one column differs."""
    data = snapshot.kv[name].data.copy()
    data[slot, 5] ^= 0x41
    column = ArrayKvColumn(name=name, data=data, read_bytes=snapshot.kv[name].read_bytes)
    return replace(snapshot, kv={**snapshot.kv, name: column})


def written(path: Path, snapshot: Snapshot) -> Path:
    """The snapshot in a folder of its own, so that nothing else is taken for its companion."""
    path.mkdir()
    write_snapshot(path / "full.snapshot.arrow", snapshot)
    return path


def compared(*folders: Path) -> tuple[Report, float]:
    """The report, and how long it took with the files opened anew."""
    started = time.perf_counter()
    report = api.compare(
        [api.open([folder]) for folder in folders], backend="cpu", options=CompareOptions()
    )
    return report, time.perf_counter() - started


def prove(device: Path, host: Path, damaged: Path, back: Path, slot: int) -> None:
    """Relocated content is clean; a changed byte is named with its column, slot and leg."""
    report, _ = compared(device, host)
    assert report.verdict == "clean", report.to_dict()
    assert report.legs[0].left_unmatched == report.legs[0].right_unmatched == 0
    for files in ((device, damaged), (device, damaged, back)):
        report, _ = compared(*files)
        [found] = report.findings
        assert (found.rule, found.slots) == ("KV402", [slot])
        assert found.evidence["leg"] == "A->B (device -> host)"
        assert found.evidence["columns"] == ["kv.v.0"]
        assert found.evidence["examples"][0]["byte"] == 5
    report, _ = compared(device, host, damaged)
    [found] = report.findings
    assert found.evidence["leg"].startswith("B->C"), found.evidence


def tiers(scratch: Path, pool: AuditedPool) -> tuple[Path, Path]:
    """The dumps of a device and of a host, both proved."""
    device = replace(pool.snapshot, key=PoolKey(tier="device"))
    host = relocated(device, seed=1, tier="host")
    slot = 3 * PAGE_SIZE + 7
    damaged = with_one_byte_changed(host, "kv.v.0", slot)
    back = relocated(damaged, seed=2, tier="device")
    folders = {
        name: written(scratch / name, snapshot)
        for name, snapshot in (
            ("device", device),
            ("host", host),
            ("damaged", damaged),
            ("back", back),
        )
    }
    prove(folders["device"], folders["host"], folders["damaged"], folders["back"], slot)
    return folders["device"], folders["host"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=1_000_000)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--bytes-per-token", type=int, default=512)
    parser.add_argument("--digest-layers", type=int, default=32)
    parser.add_argument("--folder", default=".", help="where the files are written for the run")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    num_slots = arguments.slots // PAGE_SIZE * PAGE_SIZE
    middle = statistics.median
    CpuBackend().compile_kernels()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        pool = build_pool(
            num_slots=num_slots,
            num_layers=arguments.layers,
            bytes_per_token=arguments.bytes_per_token,
        )
        device, host = tiers(Path(scratch), pool)
        runs = [
            (compared(device, host)[0].timing, in_memory_fold(pool.snapshot))
            for _ in range(arguments.repeats)
        ]
        rate, fold = middle(t.gb_per_s for t, _ in runs), middle(f.rate for _, f in runs)
        ratio = middle(timing.gb_per_s / fold.rate for timing, fold in runs)
        print(
            f"{num_slots} slots, {2 * arguments.layers} columns of {arguments.bytes_per_token} B\n"
            f"in-memory fold     {fold:7.2f} GB/s\n"
            f"diff of both       {rate:7.2f} GB/s   {middle(t.seconds for t, _ in runs):.2f} s,"
            f" {ratio:.2f} of the fold"
        )
        wide = build_pool(
            num_slots=num_slots, num_layers=arguments.digest_layers, bytes_per_token=16
        )
        digests = replace(digests_only(wide.snapshot), key=PoolKey(tier="device"))
        one = written(Path(scratch, "digests"), digests)
        other = written(Path(scratch, "moved"), relocated(digests, seed=1, tier="host"))
        times = []
        for _ in range(arguments.repeats):
            report, seconds = compared(one, other)
            assert report.verdict == "clean"
            times.append(seconds)
        print(
            f"digests only       {middle(times):7.2f} s      {2 * arguments.digest_layers} columns"
        )


if __name__ == "__main__":
    main()
