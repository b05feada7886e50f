"""`diff` of mapped snapshots whose slots all lie elsewhere: against the fold rate, with and without bytes.

Run: python tests/benchmarks/bench_compare.py [--slots 1000000] [--layers 2] [--bytes-per-token 1024]
     [--digest-layers 32] [--folder /dev/shm] [--repeats 5]

Builds a stamped pool of requests in pages of 16, and the same content in pages whose order is
another. Proves that the two are clean, and on a pool of a sixteenth that one changed byte of one
layer is named, and of three tiers the leg that changed it. Prints the median of repeats.

The fold rate is that of the same kernel over arrays in memory, in the same process, right after each
comparison: both see the same machine. The rate of a comparison counts the bytes of both dumps. Core
seconds a byte are printed beside the rates: other work on the machine hardly moves them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench_audit import PAGE_SIZE, Run, build_pool, digests_only, in_memory_fold

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

    # Columns that share their bytes share the moved ones.
    distinct = {id(column.data): column.data for column in snapshot.kv.values()}
    shared = {number: data[order] for number, data in distinct.items()}
    return replace(
        snapshot,
        key=PoolKey(tier=tier),
        canary={name: moved(column) for name, column in snapshot.canary.items()},
        stamped={name: moved(column) for name, column in snapshot.stamped.items()},
        digests={name: moved(column) for name, column in snapshot.digests.items()},
        kv={
            name: replace(column, data=shared[id(column.data)])
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


def compared(*folders: Path) -> tuple[Report, Run]:
    """The report, and how long it took with the files opened anew."""
    started, started_cpu = time.perf_counter(), time.process_time()
    report = api.compare(
        [api.open([folder]) for folder in folders], backend="cpu", options=CompareOptions()
    )
    run = Run(
        wall_s=time.perf_counter() - started,
        cpu_s=time.process_time() - started_cpu,
        seconds=report.timing.seconds,
        kv_bytes=report.timing.kv_bytes,
    )
    return report, run


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


def prove_damage(scratch: Path, pool: AuditedPool) -> None:
    """The dumps of three tiers of a pool, one byte of which was changed on the way."""
    device = replace(pool.snapshot, key=PoolKey(tier="device"))
    host = relocated(device, seed=1, tier="host")
    slot = 3 * PAGE_SIZE + 7
    damaged = with_one_byte_changed(host, "kv.v.0", slot)
    back = relocated(damaged, seed=2, tier="device")
    dumps = {"device": device, "host": host, "damaged": damaged, "back": back}
    folders = {name: written(scratch / name, snapshot) for name, snapshot in dumps.items()}
    prove(folders["device"], folders["host"], folders["damaged"], folders["back"], slot)


def moved_pair(scratch: Path, snapshot: Snapshot) -> tuple[Path, Path]:
    """A dump and one of the same content elsewhere, which compare as clean."""
    device = replace(snapshot, key=PoolKey(tier="device"))
    pair = (
        written(scratch / "here", device),
        written(scratch / "there", relocated(device, seed=1, tier="host")),
    )
    report, _ = compared(*pair)
    assert report.verdict == "clean", report.to_dict()
    assert report.legs[0].left_unmatched == report.legs[0].right_unmatched == 0
    return pair


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=1_000_000)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--bytes-per-token", type=int, default=1024)
    parser.add_argument("--digest-layers", type=int, default=32)
    parser.add_argument("--folder", default=".", help="where the files are written for the run")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    num_slots = arguments.slots // PAGE_SIZE * PAGE_SIZE
    middle = statistics.median
    CpuBackend().compile_kernels()
    shape = {"num_layers": arguments.layers, "bytes_per_token": arguments.bytes_per_token}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        prove_damage(
            Path(scratch), build_pool(num_slots=max(num_slots // 256 * PAGE_SIZE, 512), **shape)
        )
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        pool = build_pool(num_slots=num_slots, **shape)
        device, host = moved_pair(Path(scratch), pool.snapshot)
        runs = [
            (compared(device, host)[1], in_memory_fold(pool.snapshot))
            for _ in range(arguments.repeats)
        ]
        print(f"{num_slots} slots, {2 * arguments.layers} columns of {arguments.bytes_per_token} B")
        show(runs)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        wide = build_pool(
            num_slots=num_slots, num_layers=arguments.digest_layers, bytes_per_token=16
        )
        one, other = moved_pair(Path(scratch), digests_only(wide.snapshot))
        digests = [compared(one, other)[1] for _ in range(arguments.repeats)]
        print(
            f"digests only       {middle(run.wall_s for run in digests):7.2f} s"
            f"      {middle(run.cpu_s for run in digests):.2f} core s,"
            f" {2 * arguments.digest_layers} columns"
        )


def show(runs: list[tuple[Run, Run]]) -> None:
    """Print the medians: comparisons, each beside its fold."""
    middle = statistics.median
    diffs, folds = zip(*runs, strict=True)
    ratio = middle(diff.rate / fold.rate for diff, fold in runs)
    core_ratio = middle(fold.core_ps / diff.core_ps for diff, fold in runs)
    print(
        f"in-memory fold     {middle(run.rate for run in folds):7.2f} GB/s"
        f"   {middle(run.core_ps for run in folds):.0f} core ps/B\n"
        f"diff of both       {middle(run.rate for run in diffs):7.2f} GB/s"
        f"   {middle(run.core_ps for run in diffs):.0f} core ps/B,"
        f" {ratio:.2f} of the fold ({core_ratio:.2f} by core time)"
    )


if __name__ == "__main__":
    main()
