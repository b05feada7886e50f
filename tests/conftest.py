"""A clean environment for every test, and a header that says which lanes run."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil

from hypothesis import settings

from tests.helpers.lanes import IN_SIMULATOR

# Before any test module is imported: options must come from the test, never from the shell.
for _name in [name for name in os.environ if name.startswith("KVAUDIT_")]:
    del os.environ[_name]

# The first example of a test may compile a kernel: no deadline. A simulated thread is a Python
# thread: fewer examples. CONTRIBUTING.md says when `--hypothesis-profile thousand` is wanted.
settings.register_profile("kernels", deadline=None)
settings.register_profile("thousand", max_examples=1_000, deadline=None)
settings.register_profile("ten-thousand", max_examples=10_000, deadline=None)
settings.register_profile("simulator", max_examples=6, deadline=None)
settings.load_profile("simulator" if IN_SIMULATOR else "kernels")


def pytest_report_header() -> list[str]:
    """The lanes of this run; each that does not run says why."""
    lanes = {
        "reference": "",
        "cpu": "",
        "simulator": _missing_package("numba_cuda"),
        "ptx": _missing_package("numba_cuda") or _missing_package("cuda"),
        "headers": "" if shutil.which("g++") else "no g++",
        "gpu": _missing_device(),
    }
    running = " ".join(name for name, reason in lanes.items() if not reason)
    left_out = [f"{name} ({reason})" for name, reason in lanes.items() if reason]
    return [f"lanes: {running}" + (f"; not here: {', '.join(left_out)}" if left_out else "")]


def _missing_package(name: str) -> str:
    return "" if importlib.util.find_spec(name) else f"no package {name}"


def _missing_device() -> str:
    """Ask the driver itself: importing numba.cuda would decide the lane of this process."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return "the CUDA driver does not start"
    return "" if count.value else "no CUDA device"
