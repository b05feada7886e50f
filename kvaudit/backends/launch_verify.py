"""The verify launch."""

from __future__ import annotations

from dataclasses import dataclass

from kvaudit.backends.launch_binding import Enqueue, FoldedEntries
from kvaudit.backends.launch_checks import check_context, check_verify_plan
from kvaudit.backends.launch_kernels import LaunchKernels
from kvaudit.backends.launch_once import launch_on_device, launch_on_reference
from kvaudit.backends.launch_tensor_checks import check_flag
from kvaudit.backends.launch_types import VerifyOrWriteContext, VerifyPlan
from kvaudit.backends.prepared_launch import PreparedLaunch, prepare
from kvaudit.backends.torch_module import torch


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
    launch_on_device(
        _VerifyLaunch(context=context, plan=plan, checks_tokens=check_verify_expected_token)
    )


def launch_canary_verify_kernel_torch_reference(
    *, context: VerifyOrWriteContext, plan: VerifyPlan, check_verify_expected_token: bool
) -> None:
    """`launch_canary_verify_kernel` on the reference kernels and the reference's fold."""
    launch_on_reference(
        _VerifyLaunch(context=context, plan=plan, checks_tokens=check_verify_expected_token)
    )


def prepare_canary_verify_kernel(
    *, context: VerifyOrWriteContext, plan: VerifyPlan, check_verify_expected_token: bool
) -> PreparedLaunch:
    """`launch_canary_verify_kernel` for steps that repeat: checked and compiled here, then called.

    Raises:
        ValueError: an argument cannot be used; the message names it. Or a graph is being captured.
    """
    return prepare(
        _VerifyLaunch(context=context, plan=plan, checks_tokens=check_verify_expected_token)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _VerifyLaunch:
    context: VerifyOrWriteContext
    plan: VerifyPlan
    checks_tokens: bool

    def check(self) -> torch.device:
        check_context(self.context)
        check_flag(self.checks_tokens, "check_verify_expected_token")
        device = self.context.canary_buf.device
        check_verify_plan(self.plan, device=device)
        return device

    def bind(self, chosen: LaunchKernels) -> Enqueue:
        context, plan, arrays = self.context, self.plan, chosen.arrays
        num_valid, enable = arrays.signed(plan.verify_num_valid), arrays.signed(plan.enable)
        fold = chosen.bind_fold(
            chosen.kernels,
            arrays,
            context=context,
            entries=FoldedEntries(
                slot_indices=plan.verify_slot_indices, num_valid=num_valid, enable=enable
            ),
            leaves_last=True,
        )
        inputs = (
            arrays.hashed(context.canary_buf.view(torch.int64)),
            arrays.signed(plan.verify_slot_indices),
            arrays.hashed(plan.verify_expected_tokens),
            arrays.hashed(plan.verify_expected_positions),
            arrays.signed(plan.verify_prev_slot_indices),
            num_valid,
            enable,
            fold.real_kv_hashes,
        )
        outputs = (
            arrays.no_reason_bits(),
            arrays.hashed_output(context.violation_ring),
            arrays.signed_output(context.violation_write_index),
            arrays.signed_output(context.slot_run_counter),
            arrays.signed_output(context.kernel_run_counter),
        )
        flags = (int(context.kernel_kind), self.checks_tokens)

        def enqueue() -> None:
            fold.enqueue()
            source = fold.last_source
            if source is None:
                chosen.kernels.launch_verify(*inputs, *outputs, *flags)
            else:
                chosen.kernels.launch_verify_source(
                    *inputs, source.source_bytes, *outputs, *flags, *source.layout
                )

        return enqueue
