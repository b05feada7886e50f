"""The implementations that the kernel tests are parametrised over.

The process chooses the lane: under NUMBA_ENABLE_CUDASIM=1 the device kernels run in the simulator,
beside the reference; otherwise the reference and the CPU run, and the device where one is usable.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.helpers.lanes import IN_SIMULATOR

OPS = ("hash", "fold", "verify", "write", "plan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One implementation of every kernel.

    Fields:
        name: reference, cpu, simulator or cuda.
        module_stem: its module in each folder of `kvaudit.kernels`.
        keeps_order: whether ring rows come in entry order.
    """

    name: str
    module_stem: str
    keeps_order: bool

    def module(self, op: str) -> Any:
        """The module of one operation."""
        return importlib.import_module(f"kvaudit.kernels.{op}.{self.module_stem}")

    def run(self, op: str, /, launcher: str | None = None, **arguments: Any) -> None:
        """Launch one operation on numpy arrays and scalars, by the contract's names; in place."""
        launch = getattr(self.module(op), launcher or f"launch_{op}")
        names = list(inspect.signature(launch).parameters)
        assert set(names) == set(arguments)
        if self.keeps_order:
            launch(*(arguments[name] for name in names))
        else:
            self._run_on_device(launch, [arguments[name] for name in names])

    def raises_on_malformed_plan(self) -> bool:
        """Whether an index outside a table is a ValueError (a device writes a sentinel)."""
        return self.keeps_order

    @staticmethod
    def _run_on_device(launch: Callable[..., None], arguments: list[Any]) -> None:
        from numba import cuda

        moved = [
            _to_device(argument) if isinstance(argument, np.ndarray) else argument
            for argument in arguments
        ]
        launch(*moved)
        cuda.synchronize()
        for argument, on_device in zip(arguments, moved, strict=True):
            if isinstance(argument, np.ndarray) and argument.flags.writeable:
                argument[...] = on_device.copy_to_host()


def _to_device(array: np.ndarray) -> Any:
    """A copy on the device; rows keep their stride and their place between 16-byte boundaries."""
    from numba import cuda

    row_stride = array.strides[0] // array.itemsize if array.ndim == 2 else 0
    if array.ndim != 2 or array.size == 0 or row_stride < array.shape[1]:
        return cuda.to_device(np.ascontiguousarray(array))
    num_rows, row_length = array.shape
    first = array.ctypes.data % 16 // array.itemsize
    memory = np.zeros(first + num_rows * row_stride, dtype=array.dtype)
    memory[first:].reshape(num_rows, row_stride)[:, :row_length] = array
    return cuda.to_device(memory)[first:].reshape(num_rows, row_stride)[:, :row_length]


REFERENCE = Implementation(name="reference", module_stem="reference", keeps_order=True)
CPU = Implementation(name="cpu", module_stem="numba_cpu", keeps_order=True)
SIMULATOR = Implementation(name="simulator", module_stem="numba_cuda", keeps_order=False)
CUDA = Implementation(name="cuda", module_stem="numba_cuda", keeps_order=False)


def _device_is_usable() -> bool:
    try:
        from numba import cuda
    except ImportError:
        return False
    return bool(cuda.is_available())


def _lane() -> list[Any]:
    if IN_SIMULATOR:
        return [pytest.param(each, id=each.name) for each in (REFERENCE, SIMULATOR)]
    without_device = [] if _device_is_usable() else [pytest.mark.skip(reason="no CUDA device")]
    return [
        pytest.param(REFERENCE, id=REFERENCE.name),
        pytest.param(CPU, id=CPU.name),
        pytest.param(CUDA, id=CUDA.name, marks=[pytest.mark.gpu, *without_device]),
    ]


IMPLEMENTATIONS = _lane()
# The simulator computes on numpy scalars, which warn where arithmetic modulo 2^64 wraps.
WRAPS = pytest.mark.filterwarnings(r"ignore:.*overflow encountered in scalar \w+:RuntimeWarning")
