"""The plan launch."""

from __future__ import annotations

from dataclasses import dataclass

from kvaudit.backends.launch_arrays import or_absent
from kvaudit.backends.launch_binding import Enqueue
from kvaudit.backends.launch_checks import check_verify_plan, check_write_plan
from kvaudit.backends.launch_inputs import PlannedBatch
from kvaudit.backends.launch_kernels import LaunchKernels
from kvaudit.backends.launch_once import launch_on_device, launch_on_reference
from kvaudit.backends.launch_tensor_checks import check_fields, device_of
from kvaudit.backends.launch_types import VerifyPlan, WritePlan
from kvaudit.backends.prepared_launch import PreparedLaunch, prepare
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
    launch_on_device(
        _PlanLaunch(
            batch=batch,
            verify_plan=verify_plan_out,
            write_plan=write_plan_out,
            verify_capacity=verify_capacity,
        )
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
    launch_on_reference(
        _PlanLaunch(
            batch=batch,
            verify_plan=verify_plan_out,
            write_plan=write_plan_out,
            verify_capacity=verify_capacity,
        )
    )


def prepare_canary_plan_kernels(
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
) -> PreparedLaunch:
    """`launch_canary_plan_kernels` for steps that repeat: checked and compiled here, then called.

    A step of fewer requests has padding rows.

    Raises:
        ValueError: an argument cannot be used; the message names it. Or a graph is being captured.
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
    return prepare(
        _PlanLaunch(
            batch=batch,
            verify_plan=verify_plan_out,
            write_plan=write_plan_out,
            verify_capacity=verify_capacity,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PlanLaunch:
    batch: PlannedBatch
    verify_plan: VerifyPlan
    write_plan: WritePlan
    verify_capacity: int

    def check(self) -> torch.device:
        check_fields(self.verify_plan, "verify_plan_out", VerifyPlan)
        check_fields(self.write_plan, "write_plan_out", WritePlan)
        slots = self.verify_plan.verify_slot_indices
        device = device_of(slots, "verify_slot_indices")
        check_verify_plan(self.verify_plan, device=device)
        check_write_plan(self.write_plan, device=device)
        if self.verify_capacity != slots.shape[0]:
            raise ValueError(
                f"verify_capacity: is {self.verify_capacity}, but verify_slot_indices hold "
                f"{slots.shape[0]} entries"
            )
        write_req_capacity = self.write_plan.write_seed_slot_indices.shape[0]
        self.batch.check(write_req_capacity=write_req_capacity, device=device)
        return device

    def bind(self, chosen: LaunchKernels) -> Enqueue:
        batch, verify_plan, write_plan = self.batch, self.verify_plan, self.write_plan
        arrays = chosen.arrays
        device = verify_plan.verify_slot_indices.device
        mapping = batch.full_to_swa_index_mapping
        tokens = batch.req_to_verify_expected_tokens
        # Lengths of tokens that are not given check nothing.
        valid_lens = batch.req_to_verify_expected_tokens_valid_lens if tokens is not None else None
        arguments = (
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

        def enqueue() -> None:
            chosen.kernels.launch_plan(*arguments)

        return enqueue
