"""The launches that a canary calls: the one seam between the runner and `kvaudit.backends.launch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvaudit.backends import launch


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryLaunches:
    """Three launchers with the keyword arguments of `kvaudit.backends.launch`.

    Fields:
        verify: as `launch_canary_verify_kernel`.
        write: as `launch_canary_write_kernel`.
        plan: as `launch_canary_plan_kernels`.
    """

    verify: Callable[..., None]
    write: Callable[..., None]
    plan: Callable[..., None]


# The kernels of the tensors' device.
DEVICE_LAUNCHES: Final = CanaryLaunches(
    verify=launch.launch_canary_verify_kernel,
    write=launch.launch_canary_write_kernel,
    plan=launch.launch_canary_plan_kernels,
)
# The plain ones, which a `--backend reference` asks for.
REFERENCE_LAUNCHES: Final = CanaryLaunches(
    verify=launch.launch_canary_verify_kernel_torch_reference,
    write=launch.launch_canary_write_kernel_torch_reference,
    plan=launch.launch_canary_plan_kernels_torch_reference,
)
