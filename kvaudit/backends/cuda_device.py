"""Whether the CUDA kernels can run here, and if not, which of the reasons it is."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.errors import BackendNotInstalled, DeviceUnsupported, NoDevice

MIN_COMPUTE_CAPABILITY = (8, 0)  # of the copies in `kernels.async_copy`
_DRIVER_LIBRARIES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
_EXTRA_HINT = "install the extra of your driver: pip install 'kvaudit[cuda13]' or 'kvaudit[cuda12]'"
_CPU_HINT = "run it with --backend cpu"


@contextmanager
def numba_imports_translated() -> Iterator[None]:
    """Raises BackendNotInstalled where the block could not import numba or what it needs."""
    try:
        yield
    except ImportError as error:
        raise BackendNotInstalled(
            f"numba cannot be imported: {error}", hint="reinstall kvaudit with its dependencies"
        ) from error


@cache
def require_cuda() -> str:
    """The name of the device that the CUDA kernels run on, such as `NVIDIA H200 (9.0)`.

    Loads no CUDA package where none is installed or no driver is there.

    Raises:
        BackendNotInstalled: numba or numba-cuda is missing or cannot be imported.
        NoDevice: no driver, no device, or the simulator in its place.
        DeviceUnsupported: the device is older than the kernels' oldest.
    """
    require_driver()
    return _require_device()


def require_driver() -> None:
    """Make sure that there is a driver and what talks to it; asks no device, and takes no time.

    Raises:
        BackendNotInstalled: numba or numba-cuda is missing or cannot be imported.
        NoDevice: no driver, or the simulator in its place.
    """
    if find_spec("numba_cuda") is None:
        raise BackendNotInstalled("numba-cuda is not installed", hint=_EXTRA_HINT)
    with numba_imports_translated():
        from numba import config
    if config.ENABLE_CUDASIM:
        raise NoDevice(
            "numba's CUDA simulator is switched on, which is no device",
            hint="unset NUMBA_ENABLE_CUDASIM",
        )
    for library in _DRIVER_LIBRARIES:
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        return
    raise NoDevice(
        f"there is no NVIDIA driver: {_DRIVER_LIBRARIES[0]} cannot be loaded", hint=_CPU_HINT
    )


def _require_device() -> str:
    with numba_imports_translated():
        from kvaudit.kernels.cuda_module import cuda
    with cuda_errors_translated():
        if not len(cuda.gpus):
            raise NoDevice("the NVIDIA driver lists no CUDA device", hint=_CPU_HINT)
        # Without a context, which takes a second: it may be that nothing runs there.
        device = cuda.gpus.current or cuda.gpus[0]
        label, is_supported = _label(device), _is_supported(device)
    if not is_supported:
        oldest = ".".join(str(part) for part in MIN_COMPUTE_CAPABILITY)
        raise DeviceUnsupported(f"{label} has a compute capability below {oldest}", hint=_CPU_HINT)
    return label


def usable_devices() -> list[tuple[int, str]]:
    """Number and name of every device that the kernels can run on, once `require_cuda` passed."""
    from kvaudit.kernels.cuda_module import cuda

    with cuda_errors_translated():
        return [
            (number, _label(device))
            for number, device in enumerate(cuda.gpus)
            if _is_supported(device)
        ]


def _label(device: Any) -> str:  # noqa: ANN401 - numba-cuda's
    name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
    major, minor = device.compute_capability
    return f"{name} ({major}.{minor})"


def _is_supported(device: Any) -> bool:  # noqa: ANN401 - numba-cuda's
    return tuple(device.compute_capability) >= MIN_COMPUTE_CAPABILITY
