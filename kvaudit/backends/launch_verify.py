"""The verify launch."""

from __future__ import annotations

from collections.abc import Callable

from kvaudit.backends import launch_fold, launch_fold_reference
from kvaudit.backends.launch_checks import check_context, check_verify_plan
from kvaudit.backends.launch_kernels import KernelChoice, device_kernels, reference_kernels
from kvaudit.backends.launch_types import VerifyOrWriteContext, VerifyPlan
from kvaudit.backends.torch_module import torch
from kvaudit.kernels.array_forms import KernelArray


def launch_canary_verify_kernel(
    *, context: VerifyOrWriteContext, plan: VerifyPlan, check_verify_expected_token: bool
) -> None:
    """Check the planned slots against their records and KV bytes; failed entries go to the ring.

    Args:
        context: the canary's state and the sources; its ring and counters change.
        plan: the entries.
        check_verify_expected_token: whether stored tokens are judged.

    Raises:
        ValueError: an argument cannot be used; the message names it.
    """
    _launch(
        device_kernels,
        launch_fold.fold_sources,
        context=context,
        plan=plan,
        checks_tokens=check_verify_expected_token,
    )


def launch_canary_verify_kernel_torch_reference(
    *, context: VerifyOrWriteContext, plan: VerifyPlan, check_verify_expected_token: bool
) -> None:
    """`launch_canary_verify_kernel` on the reference kernels and the reference's fold."""
    _launch(
        reference_kernels,
        launch_fold_reference.fold_sources,
        context=context,
        plan=plan,
        checks_tokens=check_verify_expected_token,
    )


def _launch(
    choice: KernelChoice,
    fold_sources: Callable[..., KernelArray],
    *,
    context: VerifyOrWriteContext,
    plan: VerifyPlan,
    checks_tokens: bool,
) -> None:
    check_context(context)
    device = context.canary_buf.device
    check_verify_plan(plan, device=device)
    capacity = plan.verify_slot_indices.shape[0]
    with choice(device) as (kernels, arrays):
        real_kv_hashes = fold_sources(
            kernels,
            arrays,
            context=context,
            slot_indices=plan.verify_slot_indices,
            num_folded=arrays.num_active(
                num_valid=plan.verify_num_valid, enable=plan.enable, capacity=capacity
            ),
        )
        kernels.launch_verify(
            arrays.hashed(context.canary_buf.view(torch.int64)),
            arrays.signed(plan.verify_slot_indices),
            arrays.hashed(plan.verify_expected_tokens),
            arrays.hashed(plan.verify_expected_positions),
            arrays.signed(plan.verify_prev_slot_indices),
            arrays.signed(plan.verify_num_valid),
            arrays.signed(plan.enable),
            real_kv_hashes,
            arrays.no_reason_bits(),
            arrays.hashed_output(context.violation_ring),
            arrays.signed_output(context.violation_write_index),
            arrays.signed_output(context.slot_run_counter),
            arrays.signed_output(context.kernel_run_counter),
            int(context.kernel_kind),
            checks_tokens,
        )
