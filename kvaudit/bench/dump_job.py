"""`dump`: the digests of a pool of torch tensors, from the call to the files, as an engine runs it."""

from __future__ import annotations

import statistics
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.bench.machine import HostMachine, wall_seconds
from kvaudit.bench.measurement import DISTRUST, Bench
from kvaudit.bench.options import Op
from kvaudit.bench.pool import BenchPool
from kvaudit.bench.workload import UNWRITTEN, sampled_runs
from kvaudit.constants import WORD_BYTES
from kvaudit.core.bench_report import BenchRow, Proof
from kvaudit.errors import BackendNotInstalled, NoDevice, ProofFailed
from kvaudit.kernels.array_forms import frozen, read_only

if TYPE_CHECKING:
    import torch


def check_torch(backend: str) -> None:
    """Refuse before anything runs what `dump` cannot do without.

    Raises:
        BackendNotInstalled: torch is missing.
        NoDevice: a pool on the device is wanted, and this torch knows none.
    """
    if find_spec("torch") is None:
        raise BackendNotInstalled(
            "--op dump makes a pool of torch tensors, and torch is not installed",
            hint="install the extra: pip install 'kvaudit[torch]', or leave dump out of --op",
        )
    import torch

    if backend == "cuda" and not torch.cuda.is_available():
        raise NoDevice(
            f"--op dump makes a pool on the device, and torch {torch.__version__} has none",
            hint="install torch for your driver, or leave dump out of --op",
        )


def measured_dump(bench: Bench, pool: BenchPool) -> BenchRow:
    """Dump a pool's digests, prove them, then time the call.

    Raises:
        ProofFailed: a digest in the file is not the reference's or the CPU's.
    """
    from kvaudit.capture import dump

    pages = _pages(pool, on_device=bench.backend == "cuda")
    page_tables = _page_tables(pool)
    with tempfile.TemporaryDirectory(prefix="kvaudit-bench-") as folder:

        def dump_digests() -> Path:
            snapshot, _ = dump(
                Path(folder, "pool"),
                kv=pages,
                layout="page slot layer head dim",
                page_size=pool.page_size,
                page_tables=page_tables,
                kv_lens=np.diff(pool.offsets),
                content="digests",
            )
            return snapshot

        num_sampled = _prove(dump_digests(), pool)
        seconds = wall_seconds(dump_digests, repeats=bench.repeats)
    return BenchRow(
        op=Op.DUMP,
        real_kv=None,
        num_entries=pool.num_entries,
        bytes_per_entry=pool.slot_bytes,
        seconds=seconds,
        median=statistics.median(seconds),
        yardstick=bench.yardstick("read", pool.num_entries * pool.slot_bytes),
        proof=Proof(reference_entries=num_sampled, cpu_entries=pool.num_entries),
    )


def _pages(pool: BenchPool, *, on_device: bool) -> torch.Tensor:
    """The pool as fused layers, [num_pages, page_size, layers, 1, dim] of bfloat16."""
    import torch

    host = torch.from_numpy(pool.kv).view(torch.bfloat16)
    dim = pool.bytes_per_token // host.element_size()
    shaped = host.view(-1, pool.page_size, pool.layers, 1, dim)
    return shaped.to("cuda") if on_device else shaped


def _page_tables(pool: BenchPool) -> list[NDArray[np.int64]]:
    """The pages of each request, which owns whole ones."""
    firsts = pool.slots[:: pool.page_size] // pool.page_size
    bounds = -(-pool.offsets // pool.page_size)
    return np.split(firsts, bounds[1:-1])


def _prove(snapshot: Path, pool: BenchPool) -> int:
    """Compare the digests of the file with the CPU's in full, and with the reference's of a sample."""
    from kvaudit.formats.dataset import open_dataset

    [dumped] = open_dataset([snapshot]).pools
    slots = dumped.snapshot.slots
    sampled = sampled_runs(
        len(slots), steps_per_entry=pool.slot_bytes // WORD_BYTES, seed=pool.seed
    )
    for layer in range(pool.layers):
        digests = dumped.snapshot.digests[f"kv.kv.{layer}"].read().view(np.uint64)
        rows = pool.layer_rows(layer)
        _check(digests, _folded(HostMachine("numba_cpu"), rows, slots), judge="the CPU's kernels")
        wanted = _folded(HostMachine("reference"), rows, slots[sampled])
        _check(digests[sampled], wanted, judge="the reference")
    return len(sampled)


def _folded(
    machine: HostMachine, rows: NDArray[np.uint8], slots: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The source hash of each of the slots whose bytes are rows."""
    hashes = np.full(len(slots), UNWRITTEN, dtype=np.uint64)
    num_bytes = rows.shape[1]
    machine.kernels.launch_fold(frozen(rows), read_only(slots), hashes, *(1, num_bytes, num_bytes))
    return hashes


def _check(digests: NDArray[Any], wanted: NDArray[Any], *, judge: str) -> None:
    if not np.array_equal(digests, wanted):
        raise ProofFailed(
            f"{Op.DUMP}: {int((digests != wanted).sum()):,} digests of the file are not those of "
            f"{judge}",
            hint=DISTRUST,
        )
