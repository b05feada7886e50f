"""A small dump on disk, from literal numbers: request A of CASES.md 2, stamped and clean.

Tokens 11 to 14 at positions 0 to 3 on slots 2 to 5 of a pool of 16 slots with pages of 2. Each slot
holds bytes 00 to 0f in K and V of two layers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kvaudit.constants import RealKvHashMode
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot

SLOTS = (2, 3, 4, 5)
TOKENS = (11, 12, 13, 14)
PREV_HASHES = (0xDE7FAE23A9A1B716, 0x89CD2ABFBEBC0649, 0x13F5BAAFE6EF85D6, 0x86BD2A2B9B320591)
# The fold of bytes 00 to 0f, and real_kv_hash of that one source (CASES.md 2).
SOURCE_HASH = 0x447F1B95028CE131
REAL_KV_HASH = 0xD6D75024DFD6C30C
COLUMNS = ("kv.k.0", "kv.k.1", "kv.v.0", "kv.v.1")


def _signed(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64).view(np.int64)


def snapshot(**changes: Any) -> Snapshot:
    """The pool; its KV bytes are writable until they are written."""
    records = np.zeros((16, 4), dtype=np.int64)
    records[list(SLOTS), 0] = TOKENS
    records[list(SLOTS), 1] = range(4)
    records[list(SLOTS), 2] = _signed(list(PREV_HASHES))
    records[list(SLOTS), 3] = _signed([REAL_KV_HASH] * 4)
    data = np.tile(np.arange(16, dtype=np.uint8), (16, 1))
    stamped = _signed([SOURCE_HASH] * 16)
    content = Snapshot(
        slots=np.arange(16, dtype=np.int64),
        num_slots=16,
        page_size=2,
        real_kv_hash_mode=RealKvHashMode.ALL,
        stamped_columns=("kv.k.0",),
        canary={"k.tail": ArrayColumn(name="canary.k.tail", values=records)},
        kv={
            name: ArrayKvColumn(name=name, data=data.copy(), read_bytes=16, dtype="uint8")
            for name in COLUMNS
        },
        stamped={
            name: ArrayColumn(name=name.replace("kv", "stamped", 1), values=stamped)
            for name in COLUMNS
        },
    )
    return replace(content, **changes)


def sequences(*, tokens: tuple[int, ...] = TOKENS, slots: tuple[int, ...] = SLOTS) -> Sequences:
    """Request A."""
    return Sequences(
        request_ids=("A",),
        token_offsets=np.array([0, len(tokens)], dtype=np.int64),
        tokens=np.array(tokens, dtype=np.int64),
        slot_offsets=np.array([0, len(slots)], dtype=np.int64),
        slots=np.array(slots, dtype=np.int64),
        kv_lens=np.array([min(len(tokens), len(slots))], dtype=np.int64),
        start_positions=np.zeros(1, dtype=np.int64),
        prompt_lens=np.array([-1], dtype=np.int64),
        states=(None,),
        extra_keys=(None,),
    )


def write(
    folder: Path, *, pool: Snapshot | None = None, owners: Sequences | None = None
) -> tuple[Path, Path]:
    """Write the pair of files into a folder; returns (snapshot, sequences)."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = (folder / "target.snapshot.arrow", folder / "target.sequences.arrow")
    write_snapshot(paths[0], pool or snapshot())
    write_sequences(paths[1], owners or sequences())
    return paths


def flipped(column: str, *, slot: int) -> Snapshot:
    """The pool with one bit of one column flipped at a slot."""
    pool = snapshot()
    pool.kv[column].data[slot, 5] ^= 1
    return pool
