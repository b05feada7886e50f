"""The raw dump of stamp_from_cuda.cu as a snapshot and its sequences.

python examples/snapshot_from_raw.py raw dumps && kvaudit verify dumps
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from kvaudit.constants import RECORD_WORDS, UNKNOWN_LENGTH, RealKvHashMode
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.layout import SlotRanges
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import DumpMoment, Snapshot
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot


def read_pool(folder: Path) -> tuple[Snapshot, Sequences]:
    """What the pool held, and what its requests say it should hold."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return _snapshot(folder, manifest), _sequences(manifest["requests"])


def _snapshot(folder: Path, manifest: dict[str, Any]) -> Snapshot:
    num_pages, page_size = manifest["num_pages"], manifest["page_size"]
    num_slots, token_bytes = num_pages * page_size, manifest["token_bytes"]
    kv, stamped = {}, {}
    for layer in range(manifest["num_layers"]):
        # A page holds its slots' K, then their V.
        pages = np.fromfile(folder / f"layer-{layer}.raw", dtype=np.uint8)
        halves = pages.reshape(num_pages, 2, page_size, token_bytes)
        for half_idx, half in enumerate("kv"):
            name = f"kv.{half}.{layer}"
            kv[name] = ArrayKvColumn(
                name=name,
                data=halves[:, half_idx].reshape(num_slots, token_bytes),
                read_bytes=token_bytes,
                dtype="bfloat16",
            )
            stamps = np.fromfile(folder / f"stamped.{name}.raw", dtype=np.int64)
            stamped[name] = ArrayColumn(name=name, values=stamps)
    canary = {}
    for half in "kv":
        records = np.fromfile(folder / f"canary.{half}.raw", dtype=np.int64)
        canary[f"{half}.tail"] = ArrayColumn(
            name=f"canary.{half}.tail", values=records.reshape(num_slots, RECORD_WORDS)
        )
    return Snapshot(
        slots=np.arange(num_slots),
        num_slots=num_slots,
        page_size=page_size,
        reserved_slots=SlotRanges(((0, page_size - 1),)),
        at=DumpMoment.STEP_END,
        real_kv_hash_mode=RealKvHashMode.ALL,
        stamped_columns=tuple(kv),
        canary=canary,
        kv=kv,
        stamped=stamped,
        metadata={"sequences": "pool.sequences.arrow"},
    )


def _sequences(requests: list[dict[str, Any]]) -> Sequences:
    num_sequences = len(requests)
    num_tokens = [len(request["tokens"]) for request in requests]
    num_slots = [len(request["slots"]) for request in requests]
    return Sequences(
        request_ids=[request["request_id"] for request in requests],
        token_offsets=np.cumsum([0, *num_tokens]),
        tokens=np.concatenate([request["tokens"] for request in requests]),
        slot_offsets=np.cumsum([0, *num_slots]),
        slots=np.concatenate([request["slots"] for request in requests]),
        kv_lens=np.array(num_slots),  # the last token of each request has no KV yet
        start_positions=np.zeros(num_sequences, dtype=np.int64),
        prompt_lens=np.full(num_sequences, UNKNOWN_LENGTH),
        states=[None] * num_sequences,
        extra_keys=[None] * num_sequences,
    )


def main(raw: str = "raw", folder: str = "dumps") -> None:
    try:
        snapshot, sequences = read_pool(Path(raw))
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}: let stamp_from_cuda write {raw} first")
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_sequences(Path(folder, "pool.sequences.arrow"), sequences)
    write_snapshot(Path(folder, "pool.snapshot.arrow"), snapshot)


if __name__ == "__main__":
    main(*sys.argv[1:])
