"""The plan launch."""

from __future__ import annotations

from kvaudit.backends.launch_arrays import or_absent
from kvaudit.backends.launch_checks import check_verify_plan, check_write_plan, device_of
from kvaudit.backends.launch_inputs import PlannedBatch
from kvaudit.backends.launch_kernels import KernelChoice, device_kernels, reference_kernels
from kvaudit.backends.launch_types import VerifyPlan, WritePlan
from kvaudit.backends.torch_module import torch


def launch_canary_plan_kernels(
    *,
    verify_plan_out: VerifyPlan,
    write_plan_out: WritePlan,
    req_pool_indices: torch.Tensor,
    prefix_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    req_to_token: torch.Tensor,
    swa_window_size: int,
    full_to_swa_index_mapping: torch.Tensor | None,
    verify_capacity: int,
    req_to_verify_expected_tokens: torch.Tensor | None = None,
    req_to_verify_expected_tokens_valid_lens: torch.Tensor | None = None,
    kv_token_id_vs_position_offset: int = 0,
) -> None:
    """Flatten a batch into what the verify and write launches of its step do.

    Args:
        verify_plan_out: written; entries that do not fit leave it disabled and untouched.
        write_plan_out: written; seeds past the batch keep their values.
        req_pool_indices: row of each request, shape [bs], int64; 0 = padding.
        prefix_lens: tokens already cached, shape [bs], int64.
        extend_seq_lens: tokens to write, shape [bs], int64.
        req_to_token: slots by request row and position, shape [num_reqs, max_len], int32.
        swa_window_size: window in tokens; 0 = none.
        full_to_swa_index_mapping: shape [num_full_slots], int64; None = slots stay as they are.
        verify_capacity: entries of verify_plan_out.
        req_to_verify_expected_tokens: shape [num_reqs, max_tokens], int32; None = unchecked.
        req_to_verify_expected_tokens_valid_lens: known tokens of each request, shape [bs], int64.
        kv_token_id_vs_position_offset: position p holds token p + offset.

    Raises:
        ValueError: an argument cannot be used; the message names it. On the CPU also an index
            outside the request table, the token pool or the map.
    """
    batch = PlannedBatch(
        req_pool_indices=req_pool_indices,
        prefix_lens=prefix_lens,
        extend_seq_lens=extend_seq_lens,
        req_to_token=req_to_token,
        swa_window_size=swa_window_size,
        full_to_swa_index_mapping=full_to_swa_index_mapping,
        req_to_verify_expected_tokens=req_to_verify_expected_tokens,
        req_to_verify_expected_tokens_valid_lens=req_to_verify_expected_tokens_valid_lens,
        kv_token_id_vs_position_offset=kv_token_id_vs_position_offset,
    )
    _launch(
        device_kernels,
        batch,
        verify_plan=verify_plan_out,
        write_plan=write_plan_out,
        verify_capacity=verify_capacity,
    )


def launch_canary_plan_kernels_torch_reference(
    *,
    verify_plan_out: VerifyPlan,
    write_plan_out: WritePlan,
    req_pool_indices: torch.Tensor,
    prefix_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    req_to_token: torch.Tensor,
    swa_window_size: int,
    full_to_swa_index_mapping: torch.Tensor | None,
    verify_capacity: int,
    req_to_verify_expected_tokens: torch.Tensor | None = None,
    req_to_verify_expected_tokens_valid_lens: torch.Tensor | None = None,
    kv_token_id_vs_position_offset: int = 0,
) -> None:
    """`launch_canary_plan_kernels` on the reference kernels."""
    batch = PlannedBatch(
        req_pool_indices=req_pool_indices,
        prefix_lens=prefix_lens,
        extend_seq_lens=extend_seq_lens,
        req_to_token=req_to_token,
        swa_window_size=swa_window_size,
        full_to_swa_index_mapping=full_to_swa_index_mapping,
        req_to_verify_expected_tokens=req_to_verify_expected_tokens,
        req_to_verify_expected_tokens_valid_lens=req_to_verify_expected_tokens_valid_lens,
        kv_token_id_vs_position_offset=kv_token_id_vs_position_offset,
    )
    _launch(
        reference_kernels,
        batch,
        verify_plan=verify_plan_out,
        write_plan=write_plan_out,
        verify_capacity=verify_capacity,
    )


def _launch(
    choice: KernelChoice,
    batch: PlannedBatch,
    *,
    verify_plan: VerifyPlan,
    write_plan: WritePlan,
    verify_capacity: int,
) -> None:
    device = device_of(verify_plan.verify_slot_indices, "verify_slot_indices")
    check_verify_plan(verify_plan, device=device)
    check_write_plan(write_plan, device=device)
    length = verify_plan.verify_slot_indices.shape[0]
    if verify_capacity != length:
        raise ValueError(
            f"verify_capacity: is {verify_capacity}, but verify_slot_indices hold {length} entries"
        )
    batch.check(write_req_capacity=write_plan.write_seed_slot_indices.shape[0], device=device)
    mapping = batch.full_to_swa_index_mapping
    tokens = batch.req_to_verify_expected_tokens
    # Lengths of tokens that are not given check nothing.
    valid_lens = batch.req_to_verify_expected_tokens_valid_lens if tokens is not None else None
    with choice(device) as (kernels, arrays):
        kernels.launch_plan(
            arrays.signed(batch.req_pool_indices),
            arrays.signed(batch.prefix_lens),
            arrays.signed(batch.extend_seq_lens),
            arrays.signed(batch.req_to_token),
            arrays.signed(or_absent(mapping, torch.int64, device=device)),
            arrays.signed(or_absent(tokens, torch.int32, device=device, dims=2)),
            arrays.signed(or_absent(valid_lens, torch.int64, device=device)),
            arrays.signed_output(verify_plan.verify_slot_indices),
            arrays.hashed_output(verify_plan.verify_expected_tokens),
            arrays.hashed_output(verify_plan.verify_expected_positions),
            arrays.signed_output(verify_plan.verify_prev_slot_indices),
            arrays.signed_output(verify_plan.verify_num_valid),
            arrays.signed_output(verify_plan.enable),
            arrays.signed_output(write_plan.write_offsets),
            arrays.signed_output(write_plan.write_seed_slot_indices),
            arrays.signed_output(write_plan.write_num_valid_reqs),
            batch.swa_window_size,
            batch.kv_token_id_vs_position_offset,
        )
