"""real_kv_hash of a launch's slots from the context's sources."""

from __future__ import annotations

from typing import Final

from kvaudit.backends.kernel_set import KernelSet
from kvaudit.backends.launch_arrays import LaunchArrays
from kvaudit.backends.launch_binding import BoundFold, BoundSource, FoldedEntries
from kvaudit.backends.launch_types import RealKvHashMode, RealKvSource, VerifyOrWriteContext
from kvaudit.backends.torch_module import torch
from kvaudit.constants import PARTIAL_READ_BYTES

# Up to so many bytes of a slot are read beside its record; more are faster in a launch of their own.
_LEFT_BYTES: Final = 2 * PARTIAL_READ_BYTES


def bind_fold(
    kernels: KernelSet,
    arrays: LaunchArrays,
    *,
    context: VerifyOrWriteContext,
    entries: FoldedEntries,
    leaves_last: bool,
) -> BoundFold:
    """The fold of each entry's slot over all sources, see `BindFold`; a short one may be left."""
    sources = _bound_sources(arrays, context)
    last_source = None
    if leaves_last and sources and sources[-1].layout[-1] <= _LEFT_BYTES:
        last_source = sources.pop()
    if not sources:
        nothing = arrays.hashed(entries.slot_indices.new_empty(0))
        return BoundFold(real_kv_hashes=nothing, last_source=last_source, enqueue=_fold_nothing)
    slots = arrays.signed(entries.slot_indices)
    real_kv_hashes = arrays.hashed_output(torch.empty_like(entries.slot_indices))

    def enqueue() -> None:
        for source_idx, source in enumerate(sources):
            kernels.launch_fold_source(
                source.source_bytes,
                slots,
                entries.num_valid,
                entries.enable,
                real_kv_hashes,
                *source.layout,
                source_idx == 0,
            )

    return BoundFold(
        real_kv_hashes=arrays.written(real_kv_hashes), last_source=last_source, enqueue=enqueue
    )


def _fold_nothing() -> None:
    """Without a fold, 0 is expected of every entry."""


def _bound_sources(arrays: LaunchArrays, context: VerifyOrWriteContext) -> list[BoundSource]:
    """The sources that the mode reads, in fold order."""
    mode = context.real_kv_hash_mode
    if mode == RealKvHashMode.NONE:
        return []
    return [
        BoundSource(
            source_bytes=arrays.source(source.tensor),
            layout=(source.page_size, source.num_bytes_per_token, _read_bytes(source, mode)),
        )
        for source in context.real_kv_sources
    ]


def _read_bytes(source: RealKvSource, mode: RealKvHashMode) -> int:
    return PARTIAL_READ_BYTES if mode == RealKvHashMode.PARTIAL else source.read_bytes
