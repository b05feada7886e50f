"""The write launch."""

from __future__ import annotations

from dataclasses import dataclass

from kvaudit.backends.launch_arrays import or_absent
from kvaudit.backends.launch_binding import Enqueue, FoldedEntries
from kvaudit.backends.launch_checks import check_context, check_write_plan
from kvaudit.backends.launch_inputs import WrittenTokens
from kvaudit.backends.launch_kernels import LaunchKernels
from kvaudit.backends.launch_once import launch_on_device, launch_on_reference
from kvaudit.backends.launch_types import VerifyOrWriteContext, WritePlan
from kvaudit.backends.prepared_launch import PreparedLaunch, prepare
from kvaudit.backends.torch_module import torch


def launch_canary_write_kernel(
    *,
    context: VerifyOrWriteContext,
    plan: WritePlan,
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    enable_write_input_assert: bool,
    expected_input_tokens: torch.Tensor | None = None,
    expected_input_positions: torch.Tensor | None = None,
) -> None:
    """Stamp the slots of a step, each request a chain; failed asserts go to the ring.

    Args:
        context: the canary's state and the sources; its records, ring and counters change.
        plan: the requests' entries and seeds.
        input_ids: token of each entry, shape [num_tokens], int64.
        positions: position of each entry, shape [num_tokens], int64.
        out_cache_loc: slot of each entry, shape [num_tokens], int64; negative = not written.
        enable_write_input_assert: whether tokens and positions are compared with the expected pair.
        expected_input_tokens: shape [num_tokens], int64; None without the assert.
        expected_input_positions: shape [num_tokens], int64; None without the assert.

    Raises:
        ValueError: an argument cannot be used; the message names it.
    """
    tokens = WrittenTokens(
        input_ids=input_ids,
        positions=positions,
        out_cache_loc=out_cache_loc,
        enable_write_input_assert=enable_write_input_assert,
        expected_input_tokens=expected_input_tokens,
        expected_input_positions=expected_input_positions,
    )
    launch_on_device(_WriteLaunch(context=context, plan=plan, tokens=tokens))


def launch_canary_write_kernel_torch_reference(
    *,
    context: VerifyOrWriteContext,
    plan: WritePlan,
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    enable_write_input_assert: bool,
    expected_input_tokens: torch.Tensor | None = None,
    expected_input_positions: torch.Tensor | None = None,
) -> None:
    """`launch_canary_write_kernel` on the reference kernels and the reference's fold."""
    tokens = WrittenTokens(
        input_ids=input_ids,
        positions=positions,
        out_cache_loc=out_cache_loc,
        enable_write_input_assert=enable_write_input_assert,
        expected_input_tokens=expected_input_tokens,
        expected_input_positions=expected_input_positions,
    )
    launch_on_reference(_WriteLaunch(context=context, plan=plan, tokens=tokens))


def prepare_canary_write_kernel(
    *,
    context: VerifyOrWriteContext,
    plan: WritePlan,
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    enable_write_input_assert: bool,
    expected_input_tokens: torch.Tensor | None = None,
    expected_input_positions: torch.Tensor | None = None,
) -> PreparedLaunch:
    """`launch_canary_write_kernel` for steps that repeat: checked and compiled here, then called.

    A step of fewer tokens has fewer in its plan, or negative slots.

    Raises:
        ValueError: an argument cannot be used; the message names it. Or a graph is being captured.
    """
    tokens = WrittenTokens(
        input_ids=input_ids,
        positions=positions,
        out_cache_loc=out_cache_loc,
        enable_write_input_assert=enable_write_input_assert,
        expected_input_tokens=expected_input_tokens,
        expected_input_positions=expected_input_positions,
    )
    return prepare(_WriteLaunch(context=context, plan=plan, tokens=tokens))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _WriteLaunch:
    context: VerifyOrWriteContext
    plan: WritePlan
    tokens: WrittenTokens

    def check(self) -> torch.device:
        check_context(self.context)
        device = self.context.canary_buf.device
        check_write_plan(self.plan, device=device)
        self.tokens.check(device=device)
        return device

    def bind(self, chosen: LaunchKernels) -> Enqueue:
        context, plan, tokens, arrays = self.context, self.plan, self.tokens, chosen.arrays
        device = context.canary_buf.device
        offsets, num_reqs = (
            arrays.signed(plan.write_offsets),
            arrays.signed(plan.write_num_valid_reqs),
        )
        num_tokens = tokens.out_cache_loc.shape[0]
        num_written = arrays.signed_output(torch.empty(1, dtype=torch.int32, device=device))
        fold = chosen.bind_fold(
            chosen.kernels,
            arrays,
            context=context,
            entries=FoldedEntries(
                slot_indices=tokens.out_cache_loc,
                num_valid=num_written,
                enable=arrays.signed(or_absent(None, torch.int32, device=device)),
            ),
            leaves_last=False,
        )
        arguments = (
            offsets,
            arrays.signed(plan.write_seed_slot_indices),
            num_reqs,
            arrays.hashed(tokens.input_ids),
            arrays.hashed(tokens.positions),
            arrays.signed(tokens.out_cache_loc),
            arrays.hashed(or_absent(tokens.expected_input_tokens, torch.int64, device=device)),
            arrays.hashed(or_absent(tokens.expected_input_positions, torch.int64, device=device)),
            fold.real_kv_hashes,
            arrays.signed(context.enable_chain_position_assert),
            arrays.hashed_output(context.canary_buf.view(torch.int64)),
            arrays.hashed_output(context.violation_ring),
            arrays.signed_output(context.violation_write_index),
            arrays.signed_output(context.slot_run_counter),
            arrays.signed_output(context.kernel_run_counter),
            int(context.kernel_kind),
        )

        def enqueue() -> None:
            if fold.real_kv_hashes.shape[0] > 0:
                chosen.kernels.launch_count_written(offsets, num_reqs, num_written, num_tokens)
                fold.enqueue()
            chosen.kernels.launch_write(*arguments)

        return enqueue
