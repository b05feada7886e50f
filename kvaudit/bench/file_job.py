"""`file`: a snapshot in the page cache, from its map to the verdict, as a user's command runs it.

What is timed is what the report says: a backend's start is not in it, which is once a run.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.cpu import CpuBackend
from kvaudit.bench.machine import HostMachine
from kvaudit.bench.measurement import DISTRUST, Bench
from kvaudit.bench.options import Op
from kvaudit.bench.pool import BenchPool
from kvaudit.bench.workload import sampled_runs
from kvaudit.constants import UNKNOWN_LENGTH, WORD_BYTES
from kvaudit.core.bench_report import BenchRow, Proof
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.layout import SlotRanges
from kvaudit.core.report import Report
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import ProofFailed
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.runner.stamp import stamp

_MAX_FLIPPED: Final = 8


class AuditFiles(Protocol):
    """Opens files and audits them, as the public API does."""

    def __call__(
        self, paths: Sequence[Path], *, backend: str, slots: SlotRanges | None = None
    ) -> Report:
        """The report; slots: those to judge alone, None = all."""
        ...


def measured_file(bench: Bench, pool: BenchPool, *, audit_files: AuditFiles) -> BenchRow:
    """Write a stamped pool with a few flipped bits, prove the reports on it, then time the audit.

    Raises:
        ProofFailed: a report differs from the reference's, or misses a flipped bit.
    """
    sampled = _sampled_slots(pool)
    flipped = sampled[:: -(-len(sampled) // _MAX_FLIPPED)]
    with tempfile.TemporaryDirectory(prefix="kvaudit-bench-") as folder:
        paths = [Path(folder)]
        _write(paths[0], pool, flipped=flipped)
        audit = partial(audit_files, paths, backend=bench.backend)
        rows = _rows(audit())
        found = sorted({row["slot"] for row in rows})
        _check_equal(found, flipped.tolist(), judge="what was damaged")
        if bench.backend != "cpu":
            _check_equal(rows, _rows(audit_files(paths, backend="cpu")), judge="the CPU's kernels")
        if bench.backend != "reference":
            slots = SlotRanges.of([(int(sampled[0]), int(sampled[-1]))])
            judged = _rows(audit_files(paths, backend="reference", slots=slots))
            _check_equal(rows, judged, judge="the reference")
        seconds = [audit().timing.seconds for _ in range(bench.repeats)]
    host_read = HostMachine("numba_cpu").yardstick("read", pool.kv.size)
    is_reference = bench.backend == "reference"
    return BenchRow(
        op=Op.FILE,
        real_kv=None,
        num_entries=pool.num_entries,
        bytes_per_entry=pool.slot_bytes,
        seconds=seconds,
        median=statistics.median(seconds),
        yardstick=replace(host_read, name="host read"),
        proof=Proof(
            reference_entries=pool.num_entries if is_reference else len(sampled),
            cpu_entries=None if bench.backend == "cpu" else pool.num_entries,
        ),
    )


def _sampled_slots(pool: BenchPool) -> NDArray[np.int64]:
    """Neighbouring slots that requests own, as many as the reference can fold; int64."""
    steps = pool.slot_bytes // WORD_BYTES
    owned = np.sort(pool.slots)
    most = len(sampled_runs(len(owned), steps_per_entry=steps, seed=pool.seed))
    first = int(np.random.default_rng(pool.seed).integers(0, len(owned) - most + 1))
    return owned[first : first + most]


def _write(folder: Path, pool: BenchPool, *, flipped: NDArray[np.int64]) -> None:
    """The pool as a stamped snapshot whose bytes have changed since, and its sequences."""
    columns = [
        ArrayKvColumn(
            name=f"kv.kv.{layer}", data=pool.layer_rows(layer), read_bytes=pool.bytes_per_token
        )
        for layer in range(pool.layers)
    ]
    snapshot = Snapshot(
        slots=np.arange(pool.num_slots, dtype=np.int64),
        num_slots=pool.num_slots,
        page_size=pool.page_size,
        kv={column.name: column for column in columns},
    )
    sequences = _sequences(pool)
    stamped = stamp(AuditedPool(snapshot=snapshot, sequences=(sequences,)), backend=CpuBackend())
    # Stamps are computed when they are read: now, before the bytes change.
    kept = {
        name: ArrayColumn(name=computed.name, values=computed.read())
        for name, computed in stamped.stamped.items()
    }
    changing = columns[-1].data
    changing[flipped, 0] ^= np.uint8(1)
    try:
        write_snapshot(folder / "pool.snapshot.arrow", replace(stamped, stamped=kept))
    finally:
        changing[flipped, 0] ^= np.uint8(1)
    write_sequences(folder / "pool.sequences.arrow", sequences)


def _sequences(pool: BenchPool) -> Sequences:
    """The pool's requests."""
    return Sequences(
        request_ids=[str(number) for number in range(pool.num_requests)],
        token_offsets=pool.offsets,
        tokens=pool.tokens.view(np.int64),
        slot_offsets=pool.offsets,
        slots=pool.slots,
        kv_lens=np.diff(pool.offsets),
        start_positions=np.zeros(pool.num_requests, dtype=np.int64),
        prompt_lens=np.full(pool.num_requests, UNKNOWN_LENGTH, dtype=np.int64),
        states=[None] * pool.num_requests,
        extra_keys=[None] * pool.num_requests,
    )


def _rows(report: Report) -> list[dict[str, Any]]:
    """The violation rows of a report, as its document has them."""
    return [row.to_dict() for row in report.violations]


def _check_equal(rows: Sequence[object], wanted: Sequence[object], *, judge: str) -> None:
    if list(rows) != list(wanted):
        raise ProofFailed(
            f"{Op.FILE}: the audit's {len(rows)} rows are not those of {judge}, {len(wanted)}",
            hint=DISTRUST,
        )
