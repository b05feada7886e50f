from __future__ import annotations

import importlib
import inspect

import pytest

from kvaudit import errors
from kvaudit.backends.cuda_errors import MEANINGS, cuda_errors_translated, meaning_of

# What a device can raise: modules of numba-cuda and cuda.core with error classes.
ERROR_MODULES = (
    "numba.cuda.cudadrv.error",
    "numba.cuda.cudadrv.driver",
    "cuda.core._utils.cuda_utils",
)


def foreign_class(full_name: str) -> type[BaseException]:
    module, _, name = full_name.rpartition(".")
    found: type[BaseException] = getattr(importlib.import_module(module), name)
    return found


def error_classes() -> list[type[BaseException]]:
    return [
        value
        for module in ERROR_MODULES
        for value in vars(importlib.import_module(module)).values()
        if inspect.isclass(value)
        and issubclass(value, Exception)
        and not issubclass(value, Warning)
        and value.__module__ in ERROR_MODULES
    ]


def test_no_error_class_of_a_device_is_left_unmapped() -> None:
    classes = error_classes()
    assert len(classes) > 10
    assert [each for each in classes if meaning_of(each) is None] == []


@pytest.mark.parametrize("full_name", MEANINGS)
def test_every_mapped_class_exists_and_is_translated(full_name: str) -> None:
    foreign = foreign_class(full_name)
    with pytest.raises(MEANINGS[full_name]) as failure, cuda_errors_translated():
        raise foreign.__new__(foreign)
    assert isinstance(failure.value.__cause__, foreign)
    assert failure.value.hint


def test_the_most_specific_class_decides() -> None:
    from numba.cuda.cudadrv.driver import CudaAPIError

    with pytest.raises(errors.DeviceFailed) as failure, cuda_errors_translated():
        raise CudaAPIError(2, "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")
    assert "free memory" in failure.value.hint


@pytest.mark.parametrize(
    "error", [ValueError("a"), errors.FileCorrupt("b"), ImportError("c"), KeyboardInterrupt()]
)
def test_anything_else_passes_unchanged(error: BaseException) -> None:
    with pytest.raises(type(error)) as failure, cuda_errors_translated():
        raise error
    assert failure.value is error


def test_an_empty_message_is_replaced_by_the_class() -> None:
    from numba.cuda.cudadrv.error import NvvmError

    with pytest.raises(errors.DeviceFailed, match="NvvmError"), cuda_errors_translated():
        raise NvvmError
