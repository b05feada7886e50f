"""The identity family over a pool: seconds and peak memory, by a model's table and by repetition.

Seconds of the processor stand beside those of the wall, which depend on what else the machine does.

Run: python tests/benchmarks/bench_identity.py [--slots 1000000] [--vocab 152000] [--heads 8]

Builds requests of words that come as often as in a text, whose layer-0 K and V are of random
weights in bfloat16. The audit is first proved on this very pool, of which one page holds another
request's rows. Peak memory is that of the process, the pool's own bytes in memory among it.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from kvaudit import api
from kvaudit.core.audit_options import AuditOptions, Layer0
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.layer0_table import Layer0Table, TableSource
from kvaudit.core.report import Report
from kvaudit.core.rope import Rope, plain_frequencies
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot

PAGE_SIZE = 16
LENGTH = 4096
ROWS_AT_ONCE = 1 << 14


def table_of(*, vocab: int, heads: int, head_dim: int) -> Layer0Table:
    """Random rows of every token, in bfloat16: numbers from 1 to 2 and their negatives."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (2, vocab, heads * head_dim), dtype=np.uint16)
    rows = (0x3F80 | (rows & 0x7F)) | ((rows & 0x80) << 8)
    halves = rows.astype("<u2").view(np.uint8)
    rope = Rope(
        inverse_frequencies=plain_frequencies(theta=500_000.0, rotary_dim=head_dim),
        head_dim=head_dim,
    )
    return Layer0Table(
        tokens=np.arange(vocab, dtype=np.int64),
        k0=halves[0],
        v0=halves[1],
        dtype="bfloat16",
        num_heads=heads,
        head_dim=head_dim,
        rope=rope,
        source=TableSource.MODEL,
    )


def pool_of(table: Layer0Table, num_slots: int) -> AuditedPool:
    """Requests on scattered pages, every row what the table says."""
    rng = np.random.default_rng(1)
    num_pages = num_slots // PAGE_SIZE
    pages = rng.permutation(np.arange(1, num_pages + 1))
    slots = (pages[:, None] * PAGE_SIZE + np.arange(PAGE_SIZE)).ravel()
    tokens = np.minimum(rng.zipf(1.2, len(slots)), table.num_tokens) - 1
    starts = np.append(np.arange(0, len(slots), LENGTH), len(slots))
    positions = np.arange(len(slots)) % LENGTH
    data = np.zeros((2, num_slots + PAGE_SIZE, table.k0.shape[1]), dtype=np.uint8)
    for first in range(0, len(slots), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        turned = table.rope.rotated(table.k_rows(tokens[part]), positions[part])
        words = turned.reshape(len(turned), -1).view(np.uint32)
        rounded = words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))
        data[0, slots[part]] = (rounded >> np.uint32(16)).astype("<u2").view(np.uint8)
        data[1, slots[part]] = table.v0[tokens[part]]
    lengths = np.diff(starts)
    sequences = Sequences(
        request_ids=[f"r{number}" for number in range(len(lengths))],
        token_offsets=starts,
        tokens=tokens.astype(np.int64),
        slot_offsets=starts,
        slots=slots.astype(np.int64),
        kv_lens=lengths,
        start_positions=np.zeros(len(lengths), dtype=np.int64),
        prompt_lens=np.full(len(lengths), -1, dtype=np.int64),
        states=[None] * len(lengths),
        extra_keys=[None] * len(lengths),
    )
    kv = {
        f"kv.{half}.0": ArrayKvColumn(
            name=f"kv.{half}.0", data=rows, read_bytes=rows.shape[1], dtype="bfloat16"
        )
        for half, rows in zip("kv", data, strict=True)
    }
    snapshot = Snapshot(
        slots=np.arange(num_slots + PAGE_SIZE, dtype=np.int64),
        num_slots=num_slots + PAGE_SIZE,
        page_size=PAGE_SIZE,
        kv=kv,
        metadata={"rope": table.rope.to_json()},
    )
    return AuditedPool(snapshot=snapshot, sequences=(sequences,))


def audited(pool: AuditedPool, layer0: Layer0 | Layer0Table) -> tuple[Report, float, float]:
    """The report, and the seconds that it took: by the wall, and of the processor."""
    started, worked = time.perf_counter(), time.process_time()
    report = api.audit(Dataset(pools=[pool]), backend="cpu", options=AuditOptions(layer0=layer0))
    return report, time.perf_counter() - started, time.process_time() - worked


def prove(pool: AuditedPool, table: Layer0Table) -> None:
    """A page that holds another request's rows is accused, and nothing else."""
    slots = pool.sequences[0].slots
    own, other = slots[:PAGE_SIZE], slots[-PAGE_SIZE:]
    kept = {name: column.data[own].copy() for name, column in pool.snapshot.kv.items()}
    for column in pool.snapshot.kv.values():
        column.data[own] = column.data[other]
    report, _, _ = audited(pool, table)
    assert {slot for finding in report.findings for slot in finding.slots} <= set(own.tolist())
    assert report.findings
    for name, rows in kept.items():
        pool.snapshot.kv[name].data[own] = rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=1_000_000)
    parser.add_argument("--vocab", type=int, default=152_000)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=128)
    arguments = parser.parse_args()
    table = table_of(vocab=arguments.vocab, heads=arguments.heads, head_dim=arguments.head_dim)
    pool = pool_of(table, arguments.slots)
    layer0_bytes = sum(column.data.nbytes for column in pool.snapshot.kv.values())
    prove(pool, table)
    print("     slots  judged by     judged   seconds       CPU      GB/s   peak, layer-0 bytes")
    for name, layer0 in (("the model", table), ("repetition", Layer0.AUTO)):
        report, seconds, worked = audited(pool, layer0)
        assert not report.findings
        checked = report.to_dict()["coverage"]["identity"]["checked"]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(
            f"{arguments.slots:>10}  {name:<10} {checked:>9} {seconds:>7.2f} s {worked:>7.2f} s"
            f" {layer0_bytes / seconds / 1e9:>9.2f} {peak / layer0_bytes:>10.2f}"
        )
    print("GB/s are of layer-0 bytes")


if __name__ == "__main__":
    main()
