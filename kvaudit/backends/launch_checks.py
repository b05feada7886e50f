"""What the launch API refuses before anything is launched: ValueErrors that name the tensor.

No check reads a tensor's values: on a device that would wait for it.
"""

from __future__ import annotations

from kvaudit.backends.launch_types import (
    CanaryLaunchTag,
    RealKvHashMode,
    VerifyOrWriteContext,
    VerifyPlan,
    WritePlan,
)
from kvaudit.backends.source_checks import check_source
from kvaudit.backends.torch_module import torch
from kvaudit.constants import RECORD_BYTES, VIOLATION_FIELDS, WORD_BYTES

_ANY = None


def check_context(context: VerifyOrWriteContext) -> None:
    """Refuse canary state or sources that a launch cannot use.

    Raises:
        ValueError: naming the tensor or the field.
    """
    device = context.canary_buf.device
    _check(context.canary_buf, "canary_buf", torch.uint8, (_ANY, _ANY), device=device)
    num_slots, stride_bytes = context.canary_buf.shape
    if stride_bytes % WORD_BYTES or stride_bytes < RECORD_BYTES:
        raise ValueError(
            f"canary_buf: a row has {stride_bytes} bytes, which is not a multiple of "
            f"{WORD_BYTES} of at least {RECORD_BYTES}"
        )
    if context.canary_buf.data_ptr() % WORD_BYTES:
        raise ValueError(f"canary_buf: does not start on a multiple of {WORD_BYTES} bytes")
    ring_shape = (_ANY, VIOLATION_FIELDS)
    _check(context.violation_ring, "violation_ring", torch.int64, ring_shape, device=device)
    for name, dtype in (
        ("violation_write_index", torch.int32),
        ("slot_run_counter", torch.int64),
        ("kernel_run_counter", torch.int64),
        ("enable_chain_position_assert", torch.int32),
    ):
        _check(getattr(context, name), name, dtype, (1,), device=device)
    _check_member("kernel_kind", context.kernel_kind, CanaryLaunchTag)
    _check_member("real_kv_hash_mode", context.real_kv_hash_mode, RealKvHashMode)
    for source_idx, source in enumerate(context.real_kv_sources):
        check_source(source, f"real_kv_sources[{source_idx}]", num_slots=num_slots, device=device)


def check_verify_plan(plan: VerifyPlan, *, device: torch.device) -> None:
    """Refuse a verify plan whose columns differ in length, dtype or device.

    Raises:
        ValueError: naming the tensor.
    """
    capacity = plan.verify_slot_indices.shape[0] if plan.verify_slot_indices.dim() == 1 else _ANY
    for name in (
        "verify_slot_indices",
        "verify_expected_tokens",
        "verify_expected_positions",
        "verify_prev_slot_indices",
    ):
        _check(getattr(plan, name), name, torch.int64, (capacity,), device=device)
    _check(plan.verify_num_valid, "verify_num_valid", torch.int32, (1,), device=device)
    _check(plan.enable, "enable", torch.int32, (1,), device=device)


def check_write_plan(plan: WritePlan, *, device: torch.device) -> None:
    """Refuse a write plan whose offsets do not fit its seeds.

    Raises:
        ValueError: naming the tensor.
    """
    seeds = plan.write_seed_slot_indices
    _check(seeds, "write_seed_slot_indices", torch.int64, (_ANY,), device=device)
    _check(plan.write_offsets, "write_offsets", torch.int64, (seeds.shape[0] + 1,), device=device)
    _check(plan.write_num_valid_reqs, "write_num_valid_reqs", torch.int32, (1,), device=device)


def check_written_tokens(
    *,
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    enable_write_input_assert: bool,
    expected_input_tokens: torch.Tensor | None,
    expected_input_positions: torch.Tensor | None,
    device: torch.device,
) -> None:
    """Refuse token arrays of different lengths, and an input assert that is only half asked for.

    Raises:
        ValueError: naming the tensor.
    """
    _check(input_ids, "input_ids", torch.int64, (_ANY,), device=device)
    length = (input_ids.shape[0],)
    _check(positions, "positions", torch.int64, length, device=device)
    _check(out_cache_loc, "out_cache_loc", torch.int64, length, device=device)
    for name, expected in (
        ("expected_input_tokens", expected_input_tokens),
        ("expected_input_positions", expected_input_positions),
    ):
        if expected is None:
            if enable_write_input_assert:
                raise ValueError(f"{name}: enable_write_input_assert is set and it is None")
            continue
        if not enable_write_input_assert:
            raise ValueError(f"{name}: is given and enable_write_input_assert is not set")
        _check(expected, name, torch.int64, length, device=device)


def check_batch(
    *,
    req_pool_indices: torch.Tensor,
    prefix_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    req_to_token: torch.Tensor,
    write_req_capacity: int,
    device: torch.device,
) -> None:
    """Refuse a batch that is larger than the write plan or whose columns differ in length.

    Raises:
        ValueError: naming the tensor.
    """
    _check(req_pool_indices, "req_pool_indices", torch.int64, (_ANY,), device=device)
    batch = (req_pool_indices.shape[0],)
    _check(prefix_lens, "prefix_lens", torch.int64, batch, device=device)
    _check(extend_seq_lens, "extend_seq_lens", torch.int64, batch, device=device)
    _check(req_to_token, "req_to_token", torch.int32, (_ANY, _ANY), device=device)
    if batch[0] > write_req_capacity:
        raise ValueError(
            f"req_pool_indices: {batch[0]} requests, but the write plan's "
            f"write_seed_slot_indices hold {write_req_capacity}"
        )


def check_plan_options(
    *,
    verify_plan: VerifyPlan,
    verify_capacity: int,
    swa_window_size: int,
    full_to_swa_index_mapping: torch.Tensor | None,
    req_to_verify_expected_tokens: torch.Tensor | None,
    req_to_verify_expected_tokens_valid_lens: torch.Tensor | None,
    batch_size: int,
    device: torch.device,
) -> None:
    """Refuse a capacity that is not the buffer's, a window without map, tokens without lengths.

    Raises:
        ValueError: naming the tensor or the argument.
    """
    length = verify_plan.verify_slot_indices.shape[0]
    if verify_capacity != length:
        raise ValueError(
            f"verify_capacity: is {verify_capacity}, but verify_slot_indices hold {length} entries"
        )
    if swa_window_size < 0:
        raise ValueError(f"swa_window_size: is {swa_window_size}, which is negative")
    if full_to_swa_index_mapping is not None:
        _check(
            full_to_swa_index_mapping,
            "full_to_swa_index_mapping",
            torch.int64,
            (_ANY,),
            device=device,
        )
    elif swa_window_size:
        raise ValueError(
            f"full_to_swa_index_mapping: swa_window_size is {swa_window_size} and it is None"
        )
    tokens = req_to_verify_expected_tokens
    valid_lens = req_to_verify_expected_tokens_valid_lens
    if tokens is not None:
        name = "req_to_verify_expected_tokens"
        _check(tokens, name, torch.int32, (_ANY, _ANY), device=device)
        if valid_lens is None:
            raise ValueError(f"{name}_valid_lens: the tokens are given and it is None")
    if valid_lens is not None:
        name = "req_to_verify_expected_tokens_valid_lens"
        _check(valid_lens, name, torch.int64, (batch_size,), device=device)


def _check(
    tensor: torch.Tensor,
    name: str,
    dtype: torch.dtype,
    shape: tuple[int | None, ...],
    *,
    device: torch.device,
) -> None:
    """Refuse a tensor of another dtype, shape (None = any length), device, or with gaps."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: is a {type(tensor).__name__}, not a tensor")
    if tensor.dtype != dtype:
        raise ValueError(f"{name}: dtype is {tensor.dtype}, not {dtype}")
    fits = len(shape) == tensor.dim() and all(
        want in (_ANY, length) for want, length in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name}: shape is {list(tensor.shape)}, not [{wanted}]")
    if tensor.device != device:
        raise ValueError(f"{name}: is on {tensor.device}, not on {device}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name}: is not contiguous, its strides are {list(tensor.stride())}")


def _check_member(name: str, value: int, members: type[CanaryLaunchTag | RealKvHashMode]) -> None:
    if value not in list(members):
        raise ValueError(f"{name}: {value!r} is no {members.__name__}")
