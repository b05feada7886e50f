"""The write launch."""

from __future__ import annotations

from collections.abc import Callable

from kvaudit.backends import launch_fold, launch_fold_reference
from kvaudit.backends.launch_arrays import or_absent
from kvaudit.backends.launch_checks import check_context, check_write_plan
from kvaudit.backends.launch_inputs import WrittenTokens
from kvaudit.backends.launch_kernels import KernelChoice, device_kernels, reference_kernels
from kvaudit.backends.launch_types import VerifyOrWriteContext, WritePlan
from kvaudit.backends.torch_module import torch
from kvaudit.kernels.array_forms import KernelArray


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
    _launch(device_kernels, launch_fold.fold_sources, context=context, plan=plan, tokens=tokens)


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
    _launch(
        reference_kernels,
        launch_fold_reference.fold_sources,
        context=context,
        plan=plan,
        tokens=tokens,
    )


def _launch(
    choice: KernelChoice,
    fold_sources: Callable[..., KernelArray],
    *,
    context: VerifyOrWriteContext,
    plan: WritePlan,
    tokens: WrittenTokens,
) -> None:
    check_context(context)
    device = context.canary_buf.device
    check_write_plan(plan, device=device)
    tokens.check(device=device)
    with choice(device) as (kernels, arrays):
        real_kv_hashes = fold_sources(
            kernels,
            arrays,
            context=context,
            slot_indices=tokens.out_cache_loc,
            num_folded=tokens.out_cache_loc.shape[0],
        )
        kernels.launch_write(
            arrays.signed(plan.write_offsets),
            arrays.signed(plan.write_seed_slot_indices),
            arrays.signed(plan.write_num_valid_reqs),
            arrays.hashed(tokens.input_ids),
            arrays.hashed(tokens.positions),
            arrays.signed(tokens.out_cache_loc),
            arrays.hashed(or_absent(tokens.expected_input_tokens, torch.int64, device=device)),
            arrays.hashed(or_absent(tokens.expected_input_positions, torch.int64, device=device)),
            real_kv_hashes,
            arrays.signed(context.enable_chain_position_assert),
            arrays.hashed_output(context.canary_buf.view(torch.int64)),
            arrays.hashed_output(context.violation_ring),
            arrays.signed_output(context.violation_write_index),
            arrays.signed_output(context.slot_run_counter),
            arrays.signed_output(context.kernel_run_counter),
            int(context.kernel_kind),
        )
