"""real_kv_hash of a launch's slots from the context's sources."""

from __future__ import annotations

from kvaudit.backends.kernel_set import KernelSet
from kvaudit.backends.launch_arrays import LaunchArrays
from kvaudit.backends.launch_types import RealKvHashMode, RealKvSource, VerifyOrWriteContext
from kvaudit.backends.torch_module import torch
from kvaudit.constants import PARTIAL_READ_BYTES
from kvaudit.kernels.array_forms import KernelArray


def fold_sources(
    kernels: KernelSet,
    arrays: LaunchArrays,
    *,
    context: VerifyOrWriteContext,
    slot_indices: torch.Tensor,
    num_folded: int,
) -> KernelArray:
    """real_kv_hash of each entry, as `verify` and `write` take it.

    Args:
        kernels: the launchers.
        arrays: how tensors become their arrays.
        context: the sources and the mode.
        slot_indices: slot of each entry, shape [n], int64.
        num_folded: leading entries to fold; the others get 0.

    Returns:
        shape [n], uint64; shape [0] in mode NONE or without sources, where 0 is expected.
    """
    if context.real_kv_hash_mode == RealKvHashMode.NONE or not context.real_kv_sources:
        return arrays.written(arrays.hashes(0))
    slots = arrays.signed(slot_indices[:num_folded])
    real_kv_hashes = arrays.hashes(slot_indices.shape[0])
    source_hashes = arrays.hashes(num_folded)
    for source in context.real_kv_sources:
        kernels.launch_fold(
            arrays.source(source.tensor),
            slots,
            source_hashes,
            source.page_size,
            source.num_bytes_per_token,
            _read_bytes(source, context.real_kv_hash_mode),
        )
        kernels.launch_combine(arrays.written(source_hashes), real_kv_hashes[:num_folded])
    return arrays.written(real_kv_hashes)


def _read_bytes(source: RealKvSource, mode: RealKvHashMode) -> int:
    return PARTIAL_READ_BYTES if mode == RealKvHashMode.PARTIAL else source.read_bytes
