"""What the errors of numba-cuda, cuda.core and torch mean here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from kvaudit.errors import (
    BackendError,
    BackendNotInstalled,
    DeviceFailed,
    DeviceUnsupported,
    NoDevice,
)

# Classes by their full name, so that none of these packages is imported; most specific wins.
MEANINGS: Final[Mapping[str, type[BackendError]]] = {
    "numba.cuda.cudadrv.error.CudaSupportError": NoDevice,
    "numba.cuda.cudadrv.error.CCSupportError": DeviceUnsupported,
    "numba.cuda.cudadrv.error.NvvmSupportError": BackendNotInstalled,
    "numba.cuda.cudadrv.error.NvrtcSupportError": BackendNotInstalled,
    "numba.cuda.cudadrv.error.CudaDriverError": DeviceFailed,
    "numba.cuda.cudadrv.error.CudaRuntimeError": DeviceFailed,
    "numba.cuda.cudadrv.error.NvvmError": DeviceFailed,
    "numba.cuda.cudadrv.error.NvrtcError": DeviceFailed,
    "numba.cuda.cudadrv.driver.DeadMemoryError": DeviceFailed,
    "numba.cuda.cudadrv.driver.LinkerError": DeviceFailed,
    "numba.cuda.errors.KernelRuntimeError": DeviceFailed,
    "cuda.core._utils.cuda_utils.CUDAError": DeviceFailed,
    "torch.OutOfMemoryError": DeviceFailed,
    "torch.AcceleratorError": DeviceFailed,
}

_HINTS: Final[Mapping[type[BackendError], str]] = {
    BackendNotInstalled: "install the extra of your driver: cuda13 or cuda12",
    NoDevice: "run it on the CPU, or make a device visible",
    DeviceUnsupported: "run it on the CPU",
    DeviceFailed: "look at the device with nvidia-smi, or run it on the CPU",
}
_OUT_OF_MEMORY_HINT = "free memory on the device, or run it on the CPU"


@contextmanager
def cuda_errors_translated() -> Iterator[None]:
    """Raise a device's errors as ours; any other exception passes unchanged.

    Raises:
        BackendNotInstalled: a part of the CUDA toolkit is missing.
        NoDevice: the driver cannot be used.
        DeviceUnsupported: the kernels do not compile for the device.
        DeviceFailed: a launch, a copy or an allocation failed.
    """
    try:
        yield
    except Exception as error:
        meaning = meaning_of(type(error))
        if meaning is None:
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        message = " ".join(lines[:2]) or type(error).__name__
        is_out_of_memory = "out of memory" in message.lower().replace("_", " ")
        hint = _OUT_OF_MEMORY_HINT if is_out_of_memory else _HINTS[meaning]
        raise meaning(f"the CUDA device: {message}", hint=hint) from error


def meaning_of(error_class: type[BaseException]) -> type[BackendError] | None:
    """Our class for a foreign one; None when it is not a device's."""
    names = (f"{base.__module__}.{base.__qualname__}" for base in error_class.__mro__)
    return next((MEANINGS[name] for name in names if name in MEANINGS), None)
