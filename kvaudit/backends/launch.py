"""The canary's launches on torch tensors (DESIGN.md 3), in place, as engines call them.

The tensors' device picks the kernels: host tensors run on the CPU, CUDA tensors where they are, on
torch's current stream and without waiting for the device. Each launch has a `..._torch_reference`
twin on the reference kernels: plain, slow, obviously right. Bad arguments raise a ValueError that
names the tensor, before anything is launched.

For steps that repeat, the `prepare_...` twin of a launch takes the same arguments once and returns
a `PreparedLaunch` to be called each step.
"""

from __future__ import annotations

from kvaudit.backends.launch_plan import (
    launch_canary_plan_kernels,
    launch_canary_plan_kernels_torch_reference,
    prepare_canary_plan_kernels,
)
from kvaudit.backends.launch_types import (
    CanaryLaunchTag,
    FailReason,
    RealKvHashMode,
    RealKvSource,
    VerifyOrWriteContext,
    VerifyPlan,
    WritePlan,
)
from kvaudit.backends.launch_verify import (
    launch_canary_verify_kernel,
    launch_canary_verify_kernel_torch_reference,
    prepare_canary_verify_kernel,
)
from kvaudit.backends.launch_write import (
    launch_canary_write_kernel,
    launch_canary_write_kernel_torch_reference,
    prepare_canary_write_kernel,
)
from kvaudit.backends.prepared_launch import PreparedLaunch

__all__ = [
    "CanaryLaunchTag",
    "FailReason",
    "PreparedLaunch",
    "RealKvHashMode",
    "RealKvSource",
    "VerifyOrWriteContext",
    "VerifyPlan",
    "WritePlan",
    "launch_canary_plan_kernels",
    "launch_canary_plan_kernels_torch_reference",
    "launch_canary_verify_kernel",
    "launch_canary_verify_kernel_torch_reference",
    "launch_canary_write_kernel",
    "launch_canary_write_kernel_torch_reference",
    "prepare_canary_plan_kernels",
    "prepare_canary_verify_kernel",
    "prepare_canary_write_kernel",
]
