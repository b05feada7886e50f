"""`hash` on a CUDA device: one thread an entry, 32 scattered bytes read and 8 bytes written each."""

from __future__ import annotations

from kvaudit.kernels.cuda_module import cuda, device_function, kernel, launch
from kvaudit.kernels.hash import scalar

splitmix64 = device_function(scalar.splitmix64)
splitmix64_mix3 = device_function(scalar.make_splitmix64_mix3(splitmix64))
slot_hash = device_function(scalar.make_slot_hash(splitmix64_mix3))


@kernel
def _hash_kernel(canary_records, slot_indices, slot_hashes):
    for entry_idx in range(cuda.grid(1), slot_indices.shape[0], cuda.gridsize(1)):
        slot_hashes[entry_idx] = slot_hash(canary_records, slot_indices[entry_idx])


KERNELS = (_hash_kernel,)


def launch_hash(canary_records, slot_indices, slot_hashes):
    """Enqueue `hash`; all arrays are on the device."""
    launch(
        _hash_kernel,
        (canary_records, slot_indices, slot_hashes),
        num_items=slot_indices.shape[0],
    )
