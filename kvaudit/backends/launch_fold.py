"""real_kv_hash of a launch's slots from the context's sources."""

from __future__ import annotations

from kvaudit.backends.kernel_set import KernelSet
from kvaudit.backends.launch_arrays import LaunchArrays
from kvaudit.backends.launch_binding import BoundFold
from kvaudit.backends.launch_types import RealKvHashMode, RealKvSource, VerifyOrWriteContext
from kvaudit.backends.torch_module import torch
from kvaudit.constants import PARTIAL_READ_BYTES
from kvaudit.kernels.array_forms import KernelArray


def bind_fold(
    kernels: KernelSet,
    arrays: LaunchArrays,
    *,
    context: VerifyOrWriteContext,
    slot_indices: torch.Tensor,
) -> BoundFold:
    """The fold of each entry's slot over all sources, see `BindFold`."""
    if context.real_kv_hash_mode == RealKvHashMode.NONE or not context.real_kv_sources:
        nothing = slot_indices.new_empty(0)
        return BoundFold(real_kv_hashes=arrays.hashed(nothing), enqueue=_fold_nothing)
    slots = arrays.signed(slot_indices)
    # Engines run in inference mode, whose own tensors could not be cleared outside of it.
    with torch.inference_mode(mode=False):
        hashes_memory, source_hashes_memory = (torch.empty_like(slot_indices) for _ in range(2))
    real_kv_hashes = arrays.hashed_output(hashes_memory)
    source_hashes = arrays.hashed_output(source_hashes_memory)
    folded_hashes = arrays.written(source_hashes)
    sources = [
        (
            arrays.source(source.tensor),
            source.page_size,
            source.num_bytes_per_token,
            _read_bytes(source, context.real_kv_hash_mode),
        )
        for source in context.real_kv_sources
    ]

    def enqueue(num_folded: int) -> None:
        hashes_memory.zero_()
        for source_bytes, *geometry in sources:
            kernels.launch_fold(
                source_bytes,
                _leading(slots, num_folded),
                _leading(source_hashes, num_folded),
                *geometry,
            )
            kernels.launch_combine(
                _leading(folded_hashes, num_folded), _leading(real_kv_hashes, num_folded)
            )

    return BoundFold(real_kv_hashes=arrays.written(real_kv_hashes), enqueue=enqueue)


def _fold_nothing(_num_folded: int) -> None:
    """Without a fold, 0 is expected of every entry."""


def _leading(array: KernelArray, length: int) -> KernelArray:
    """The first elements; the very array where that is all, since slicing costs on a device."""
    return array if length == array.shape[0] else array[:length]


def _read_bytes(source: RealKvSource, mode: RealKvHashMode) -> int:
    return PARTIAL_READ_BYTES if mode == RealKvHashMode.PARTIAL else source.read_bytes
