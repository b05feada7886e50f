"""What the launch API refuses of one argument (`launch_checks`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from numbers import Integral
from typing import Any, Final

import numpy as np

from kvaudit.backends.torch_module import torch

ANY_LENGTH: Final = None
_INT64 = torch.iinfo(torch.int64)


def check_tensor(
    tensor: torch.Tensor,
    name: str,
    dtype: torch.dtype,
    *,
    shape: Sequence[int | None],
    device: torch.device,
) -> None:
    """Refuse a tensor of another dtype, shape or device, not contiguous, or without its memory.

    Args:
        tensor: the tensor.
        name: its name, for the message.
        dtype: the dtype it must have.
        shape: the lengths it must have; ANY_LENGTH leaves one open.
        device: where it must live.

    Raises:
        ValueError: it differs.
    """
    check_is_tensor(tensor, name)
    if tensor.dtype != dtype:
        raise ValueError(f"{name}: dtype is {tensor.dtype}, not {dtype}")
    fits = len(shape) == tensor.dim() and all(
        want is ANY_LENGTH or want == length
        for want, length in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name}: shape is {list(tensor.shape)}, not [{wanted}]")
    if tensor.device != device:
        raise ValueError(f"{name}: is on {tensor.device}, not on {device}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name}: is not contiguous, its strides are {list(tensor.stride())}")
    check_memory(tensor, name)


def device_of(tensor: torch.Tensor, name: str) -> torch.device:
    """Where a tensor lives, if it is one.

    Raises:
        ValueError: naming it.
    """
    check_is_tensor(tensor, name)
    return tensor.device


def check_int64(value: object, name: str) -> None:
    """Refuse what a kernel does not take as an int64.

    Raises:
        ValueError: it is no integer, or it does not fit.
    """
    if not isinstance(value, Integral):
        raise ValueError(f"{name}: is {value!r}, not an integer")  # noqa: TRY004 - one error for all
    if not _INT64.min <= int(value) <= _INT64.max:
        raise ValueError(f"{name}: is {value}, which does not fit 64 bits")


def check_flag(value: object, name: str) -> None:
    """Refuse what is no yes or no: a tensor's would have to be waited for.

    Raises:
        ValueError: it is neither a bool nor an integer.
    """
    if not isinstance(value, Integral | np.bool_):
        raise ValueError(f"{name}: is {value!r}, not a bool")  # noqa: TRY004 - one error for all


def check_fields(value: object, name: str, kind: type[Any]) -> None:
    """Refuse what lacks a field of a dataclass; an engine's own type that has them all will do.

    Raises:
        ValueError: naming the field.
    """
    for field in fields(kind):
        if not hasattr(value, field.name):
            raise ValueError(
                f"{name}: is a {type(value).__name__}, not a {kind.__name__}: "
                f"it has no {field.name}"
            )


def check_memory(tensor: torch.Tensor, name: str) -> None:
    """Refuse a tensor whose memory was given back, as `untyped_storage().resize_(0)` does.

    Raises:
        ValueError: its storage ends before its last element.
    """
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((length - 1) * stride for length, stride in steps)
    wanted = (tensor.storage_offset() + last + 1) * tensor.element_size() if tensor.numel() else 0
    held = tensor.untyped_storage().nbytes()
    if held < wanted:
        raise ValueError(f"{name}: its memory was given back: {held} bytes are left of {wanted}")


def check_is_tensor(tensor: object, name: str) -> None:
    """Refuse what is no tensor, or one whose memory does not hold its elements as they are.

    Raises:
        ValueError: naming it.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name}: is a {type(tensor).__name__}, not a tensor")  # noqa: TRY004 - one error for all
    oddities = {
        f"of layout {tensor.layout}": tensor.layout != torch.strided,
        "quantized": tensor.is_quantized,
        "a view of conjugates": tensor.is_conj(),
        "a view of negatives": tensor.is_neg(),
    }
    for oddity, holds in oddities.items():
        if holds:
            raise ValueError(f"{name}: is {oddity}, whose memory does not hold its elements")
