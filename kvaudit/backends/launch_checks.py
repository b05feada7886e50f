"""What the launch API refuses before anything is launched: ValueErrors that name the tensor.

No check reads a tensor's values: on a device that would wait for it. What has a wrong type is
refused like all else, so that a caller has one error to catch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Final

from kvaudit.backends.launch_tensor_checks import (
    ANY_LENGTH,
    check_fields,
    check_int64,
    check_is_tensor,
    check_memory,
    check_tensor,
    device_of,
)
from kvaudit.backends.launch_types import (
    CanaryLaunchTag,
    RealKvHashMode,
    RealKvSource,
    VerifyOrWriteContext,
    VerifyPlan,
    WritePlan,
)
from kvaudit.backends.torch_module import torch
from kvaudit.constants import RECORD_BYTES, SOURCE_ALIGNMENT_BYTES, VIOLATION_FIELDS, WORD_BYTES

_MIN_SOURCE_DIMENSIONS: Final = 2


def check_context(context: VerifyOrWriteContext) -> None:
    """Refuse canary state or sources that a launch cannot use.

    Raises:
        ValueError: naming the tensor or the field.
    """
    check_fields(context, "context", VerifyOrWriteContext)
    device = device_of(context.canary_buf, "canary_buf")
    check_tensor(
        context.canary_buf, "canary_buf", torch.uint8, shape=(ANY_LENGTH, ANY_LENGTH), device=device
    )
    num_slots, stride_bytes = context.canary_buf.shape
    if stride_bytes % WORD_BYTES or stride_bytes < RECORD_BYTES:
        raise ValueError(
            f"canary_buf: a row has {stride_bytes} bytes, which is not a multiple of "
            f"{WORD_BYTES} of at least {RECORD_BYTES}"
        )
    # torch views bytes as words only where the storage, too, is cut at a word.
    if (
        context.canary_buf.data_ptr() % WORD_BYTES
        or context.canary_buf.storage_offset() % WORD_BYTES
    ):
        raise ValueError(
            f"canary_buf: does not start on a multiple of {WORD_BYTES} bytes, in memory and in "
            "its storage"
        )
    ring_shape = (ANY_LENGTH, VIOLATION_FIELDS)
    check_tensor(
        context.violation_ring, "violation_ring", torch.int64, shape=ring_shape, device=device
    )
    for name, dtype in (
        ("violation_write_index", torch.int32),
        ("slot_run_counter", torch.int64),
        ("kernel_run_counter", torch.int64),
        ("enable_chain_position_assert", torch.int32),
    ):
        check_tensor(getattr(context, name), name, dtype, shape=(1,), device=device)
    _check_member("kernel_kind", context.kernel_kind, CanaryLaunchTag)
    _check_member("real_kv_hash_mode", context.real_kv_hash_mode, RealKvHashMode)
    if not isinstance(context.real_kv_sources, Sequence):
        raise ValueError(  # noqa: TRY004 - one error for all
            f"real_kv_sources: is a {type(context.real_kv_sources).__name__}, not a sequence"
        )
    for source_idx, source in enumerate(context.real_kv_sources):
        _check_source(source, f"real_kv_sources[{source_idx}]", num_slots=num_slots, device=device)


def check_verify_plan(plan: VerifyPlan, *, device: torch.device) -> None:
    """Refuse a verify plan whose columns differ in length, dtype or device.

    Raises:
        ValueError: naming the tensor.
    """
    check_fields(plan, "plan", VerifyPlan)
    slots = plan.verify_slot_indices
    check_tensor(slots, "verify_slot_indices", torch.int64, shape=(ANY_LENGTH,), device=device)
    for name in (
        "verify_expected_tokens",
        "verify_expected_positions",
        "verify_prev_slot_indices",
    ):
        check_tensor(getattr(plan, name), name, torch.int64, shape=slots.shape, device=device)
    check_tensor(plan.verify_num_valid, "verify_num_valid", torch.int32, shape=(1,), device=device)
    check_tensor(plan.enable, "enable", torch.int32, shape=(1,), device=device)


def check_write_plan(plan: WritePlan, *, device: torch.device) -> None:
    """Refuse a write plan whose offsets do not fit its seeds.

    Raises:
        ValueError: naming the tensor.
    """
    check_fields(plan, "plan", WritePlan)
    seeds = plan.write_seed_slot_indices
    check_tensor(seeds, "write_seed_slot_indices", torch.int64, shape=(ANY_LENGTH,), device=device)
    check_tensor(
        plan.write_offsets, "write_offsets", torch.int64, shape=(seeds.shape[0] + 1,), device=device
    )
    check_tensor(
        plan.write_num_valid_reqs, "write_num_valid_reqs", torch.int32, shape=(1,), device=device
    )


def _check_member(
    name: str, value: object, members: type[CanaryLaunchTag | RealKvHashMode]
) -> None:
    if not isinstance(value, Integral) or value not in list(members):
        raise ValueError(f"{name}: {value!r} is no {members.__name__}")


def _check_source(source: RealKvSource, name: str, *, num_slots: int, device: torch.device) -> None:
    """Refuse a source that does not hold num_slots slots of the stated geometry.

    Args:
        source: the source.
        name: its name, for the message.
        num_slots: slots of the canary buffer.
        device: where the canary buffer lives.

    Raises:
        ValueError: naming the source and its field.
    """
    check_fields(source, name, RealKvSource)
    _check_geometry(source, name)
    _check_strides(source.tensor, f"{name}.tensor", device=device)
    _check_extent(source, f"{name}.tensor", num_slots=num_slots)


def _check_geometry(source: RealKvSource, name: str) -> None:
    for field in ("page_size", "num_bytes_per_token", "read_bytes"):
        check_int64(getattr(source, field), f"{name}.{field}")
    if source.page_size < 1:
        raise ValueError(f"{name}.page_size: is {source.page_size}, less than 1")
    for field in ("num_bytes_per_token", "read_bytes"):
        num_bytes = getattr(source, field)
        if num_bytes < 0 or num_bytes % SOURCE_ALIGNMENT_BYTES:
            raise ValueError(
                f"{name}.{field}: is {num_bytes}, not a multiple of {SOURCE_ALIGNMENT_BYTES}"
            )
    if source.num_bytes_per_token == 0:
        raise ValueError(f"{name}.num_bytes_per_token: is 0")
    if source.read_bytes > source.num_bytes_per_token:
        raise ValueError(
            f"{name}.read_bytes: is {source.read_bytes}, more than num_bytes_per_token "
            f"{source.num_bytes_per_token}"
        )


def _check_strides(tensor: torch.Tensor, name: str, *, device: torch.device) -> None:
    check_is_tensor(tensor, name)
    if tensor.device != device:
        raise ValueError(f"{name}: is on {tensor.device}, not on {device}")
    if tensor.dim() < _MIN_SOURCE_DIMENSIONS:
        raise ValueError(f"{name}: shape is {list(tensor.shape)}, not [rows, ...]")
    strides = list(tensor.stride())
    has_gaps = any(
        tensor.shape[dim] > 1 and strides[dim] != math.prod(tensor.shape[dim + 1 :])
        for dim in range(1, tensor.dim())
    )
    if strides[-1] != 1 or has_gaps:
        raise ValueError(f"{name}: has gaps within a row, its strides are {strides}")
    check_memory(tensor, name)
    row_stride_bytes = tensor.stride(0) * tensor.element_size()
    if row_stride_bytes % SOURCE_ALIGNMENT_BYTES:
        raise ValueError(
            f"{name}: stride(0) is {row_stride_bytes} bytes, not a multiple of "
            f"{SOURCE_ALIGNMENT_BYTES}"
        )


def _check_extent(source: RealKvSource, name: str, *, num_slots: int) -> None:
    num_rows = source.tensor.shape[0]
    row_bytes = math.prod(source.tensor.shape[1:]) * source.tensor.element_size()
    slots_bytes = source.page_size * source.num_bytes_per_token
    if row_bytes < slots_bytes:
        raise ValueError(
            f"{name}: a row has {row_bytes} bytes, less than page_size * num_bytes_per_token "
            f"= {slots_bytes}"
        )
    if num_rows * source.page_size < num_slots:
        raise ValueError(
            f"{name}: {num_rows} rows of {source.page_size} slots, less than the {num_slots} "
            "slots of canary_buf"
        )
