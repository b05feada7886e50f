"""The canary's launches on torch tensors (DESIGN.md 3), in place, as engines call them.

The tensors' device picks the kernels: host tensors run on the CPU, CUDA tensors where they are, on
torch's current stream and without waiting for the device. Each launch has a `..._torch_reference`
twin on the reference kernels: plain, slow, obviously right. Bad arguments raise a ValueError that
names the tensor, before anything is launched.
"""

from __future__ import annotations

from kvaudit.backends.launch_plan import (
    launch_canary_plan_kernels,
    launch_canary_plan_kernels_torch_reference,
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
)
from kvaudit.backends.launch_write import (
    launch_canary_write_kernel,
    launch_canary_write_kernel_torch_reference,
)

__all__ = [
    "CanaryLaunchTag",
    "FailReason",
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
]
