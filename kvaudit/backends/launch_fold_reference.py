"""`launch_fold` as DESIGN.md 3 words it, for the reference twins; it shares nothing with it."""

from __future__ import annotations

import numpy as np

from kvaudit.backends.launch_binding import BoundFold, FoldedEntries
from kvaudit.backends.launch_types import RealKvHashMode, RealKvSource, VerifyOrWriteContext
from kvaudit.backends.torch_module import torch
from kvaudit.constants import PARTIAL_READ_BYTES
from kvaudit.kernels.fold.reference import source_hash
from kvaudit.kernels.hash.reference import splitmix64


def bind_fold(
    _kernels: object,
    _arrays: object,
    *,
    context: VerifyOrWriteContext,
    entries: FoldedEntries,
    leaves_last: bool,
) -> BoundFold:
    """The fold of each entry: `acc = 0; per source acc = S(acc ^ source_hash)`; see `BindFold`.

    No source is left. Entries outside the pool get 0: their hash is never looked at.
    """
    del leaves_last
    folds_nothing = context.real_kv_hash_mode == RealKvHashMode.NONE or not context.real_kv_sources
    num_entries = entries.slot_indices.shape[0]
    real_kv_hashes = np.zeros(0 if folds_nothing else num_entries, dtype=np.uint64)

    def enqueue() -> None:
        is_enabled = entries.enable.shape[0] == 0 or int(entries.enable[0]) != 0
        num_folded = max(0, int(entries.num_valid[0])) if is_enabled else 0
        for entry, slot in enumerate(entries.slot_indices[:num_folded].tolist()):
            if not folds_nothing:
                is_inside = 0 <= slot < context.canary_buf.shape[0]
                real_kv_hashes[entry] = _real_kv_hash(context, slot) if is_inside else 0

    return BoundFold(real_kv_hashes=real_kv_hashes, last_source=None, enqueue=enqueue)


def _real_kv_hash(context: VerifyOrWriteContext, slot: int) -> int:
    acc = 0
    for source in context.real_kv_sources:
        slot_bytes = _slot_bytes(source, slot)
        if context.real_kv_hash_mode == RealKvHashMode.PARTIAL:
            slot_bytes = slot_bytes[:PARTIAL_READ_BYTES]
        else:
            slot_bytes = slot_bytes[: source.read_bytes]
        acc = splitmix64(acc ^ source_hash(slot_bytes))
    return acc


def _slot_bytes(source: RealKvSource, slot: int) -> bytes:
    """All bytes of a slot: row s // page_size from column (s % page_size) * num_bytes_per_token."""
    row = source.tensor[slot // source.page_size].detach().flatten().view(torch.uint8)
    column = (slot % source.page_size) * source.num_bytes_per_token
    return bytes(row[column : column + source.num_bytes_per_token].tolist())
