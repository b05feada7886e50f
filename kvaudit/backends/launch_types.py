"""What the torch launch API takes (DESIGN.md 3): an engine's tensors, by the engine's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvaudit.backends.torch_module import torch
from kvaudit.constants import NO_EXPECTED_TOKEN, FailReason, RealKvHashMode
from kvaudit.constants import LaunchTag as CanaryLaunchTag

__all__ = [
    "CanaryLaunchTag",
    "FailReason",
    "RealKvHashMode",
    "RealKvSource",
    "VerifyOrWriteContext",
    "VerifyPlan",
    "WritePlan",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RealKvSource:
    """The KV bytes of one layer and half, seen as uint8 [rows, row_bytes].

    Slot s stands in row s // page_size from byte (s % page_size) * num_bytes_per_token.

    Fields:
        tensor: shape [rows, ...], any dtype; each row is dense (stride(-1) = 1), stride(0) is a
            multiple of 16 bytes, so K and V may be views of one flat buffer.
        page_size: slots a row.
        num_bytes_per_token: bytes a slot, a multiple of 16.
        read_bytes: leading bytes of a slot that mode ALL covers, a multiple of 16.
    """

    tensor: torch.Tensor
    page_size: int
    num_bytes_per_token: int
    read_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VerifyPlan:
    """Flat entries of one verify launch, on a device. Entries past num_valid are never read.

    Fields:
        verify_slot_indices: slot of each entry, shape [verify_capacity], int64; 0 is skipped.
        verify_expected_tokens: shape [verify_capacity], int64; -1 = unchecked.
        verify_expected_positions: shape [verify_capacity], int64, in tokens.
        verify_prev_slot_indices: predecessor in the chain, shape [verify_capacity], int64; -1 at a
            head, 0 skips the chain check.
        verify_num_valid: active entries, shape [1], int32; clamped to [0, verify_capacity].
        enable: shape [1], int32; 0 = the launch checks nothing.
    """

    verify_slot_indices: torch.Tensor
    verify_expected_tokens: torch.Tensor
    verify_expected_positions: torch.Tensor
    verify_prev_slot_indices: torch.Tensor
    verify_num_valid: torch.Tensor
    enable: torch.Tensor

    @classmethod
    def allocate(cls, *, verify_capacity: int, device: torch.device | str) -> VerifyPlan:
        """An empty plan: zeros, but for expected tokens of -1 and enable of 1."""
        return cls(
            verify_slot_indices=_zeros(verify_capacity, torch.int64, device=device),
            verify_expected_tokens=torch.full(
                (verify_capacity,), NO_EXPECTED_TOKEN, dtype=torch.int64, device=device
            ),
            verify_expected_positions=_zeros(verify_capacity, torch.int64, device=device),
            verify_prev_slot_indices=_zeros(verify_capacity, torch.int64, device=device),
            verify_num_valid=_zeros(1, torch.int32, device=device),
            enable=torch.ones(1, dtype=torch.int32, device=device),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WritePlan:
    """What one write launch stamps, request by request, on a device.

    Fields:
        write_offsets: first entry of each request, shape [write_req_capacity + 1], int64.
        write_seed_slot_indices: the slot that each chain continues from, shape
            [write_req_capacity], int64; negative = a chain head.
        write_num_valid_reqs: requests, shape [1], int32; clamped to [0, write_req_capacity].
    """

    write_offsets: torch.Tensor
    write_seed_slot_indices: torch.Tensor
    write_num_valid_reqs: torch.Tensor

    @classmethod
    def allocate(cls, *, write_req_capacity: int, device: torch.device | str) -> WritePlan:
        """An empty plan: zeros."""
        return cls(
            write_offsets=_zeros(write_req_capacity + 1, torch.int64, device=device),
            write_seed_slot_indices=_zeros(write_req_capacity, torch.int64, device=device),
            write_num_valid_reqs=_zeros(1, torch.int32, device=device),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VerifyOrWriteContext:
    """The canary's state that a launch reads and changes.

    Fields:
        canary_buf: records, shape [num_slots, stride], uint8; stride a multiple of 8, at least 32.
        kernel_kind: the launch tag.
        violation_ring: shape [ring_capacity, 8], int64; filled once, it never wraps.
        violation_write_index: shape [1], int32; counts on past the capacity.
        slot_run_counter: shape [1], int64.
        kernel_run_counter: shape [1], int64.
        real_kv_sources: KV bytes in fold order; none expects a real_kv_hash of 0. A head launch
            gets none.
        real_kv_hash_mode: how much of a slot's bytes is folded; NONE expects 0.
        enable_chain_position_assert: shape [1], int32; read by the write launch.
    """

    canary_buf: torch.Tensor
    kernel_kind: CanaryLaunchTag
    violation_ring: torch.Tensor
    violation_write_index: torch.Tensor
    slot_run_counter: torch.Tensor
    kernel_run_counter: torch.Tensor
    real_kv_sources: Sequence[RealKvSource]
    real_kv_hash_mode: RealKvHashMode
    enable_chain_position_assert: torch.Tensor


def _zeros(length: int, dtype: torch.dtype, *, device: torch.device | str) -> torch.Tensor:
    return torch.zeros(length, dtype=dtype, device=device)
