"""What the launch API refuses of a source: ValueErrors that name it."""

from __future__ import annotations

import math

from kvaudit.backends.launch_types import RealKvSource
from kvaudit.backends.torch_module import torch
from kvaudit.constants import SOURCE_ALIGNMENT_BYTES

_MIN_DIMENSIONS = 2


def check_source(source: RealKvSource, name: str, *, num_slots: int, device: torch.device) -> None:
    """Refuse a source that does not hold num_slots slots of the stated geometry.

    Args:
        source: the source.
        name: its name, for the message.
        num_slots: slots of the canary buffer.
        device: where the canary buffer lives.

    Raises:
        ValueError: naming the source and its field.
    """
    _check_geometry(source, name)
    _check_strides(source.tensor, f"{name}.tensor", device=device)
    _check_extent(source, f"{name}.tensor", num_slots=num_slots)


def _check_geometry(source: RealKvSource, name: str) -> None:
    if source.page_size < 1:
        raise ValueError(f"{name}.page_size: is {source.page_size}, less than 1")
    for field in ("num_bytes_per_token", "read_bytes"):
        num_bytes = getattr(source, field)
        if num_bytes < 0 or num_bytes % SOURCE_ALIGNMENT_BYTES:
            raise ValueError(
                f"{name}.{field}: is {num_bytes}, not a multiple of {SOURCE_ALIGNMENT_BYTES}"
            )
    if source.num_bytes_per_token == 0:
        raise ValueError(f"{name}.num_bytes_per_token: is 0")
    if source.read_bytes > source.num_bytes_per_token:
        raise ValueError(
            f"{name}.read_bytes: is {source.read_bytes}, more than num_bytes_per_token "
            f"{source.num_bytes_per_token}"
        )


def _check_strides(tensor: torch.Tensor, name: str, *, device: torch.device) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: is a {type(tensor).__name__}, not a tensor")
    if tensor.device != device:
        raise ValueError(f"{name}: is on {tensor.device}, not on {device}")
    if tensor.dim() < _MIN_DIMENSIONS:
        raise ValueError(f"{name}: shape is {list(tensor.shape)}, not [rows, ...]")
    strides = list(tensor.stride())
    has_gaps = any(
        tensor.shape[dim] > 1 and strides[dim] != math.prod(tensor.shape[dim + 1 :])
        for dim in range(1, tensor.dim())
    )
    if strides[-1] != 1 or has_gaps:
        raise ValueError(f"{name}: has gaps within a row, its strides are {strides}")
    row_stride_bytes = tensor.stride(0) * tensor.element_size()
    if row_stride_bytes % SOURCE_ALIGNMENT_BYTES:
        raise ValueError(
            f"{name}: stride(0) is {row_stride_bytes} bytes, not a multiple of "
            f"{SOURCE_ALIGNMENT_BYTES}"
        )


def _check_extent(source: RealKvSource, name: str, *, num_slots: int) -> None:
    num_rows = source.tensor.shape[0]
    row_bytes = math.prod(source.tensor.shape[1:]) * source.tensor.element_size()
    slots_bytes = source.page_size * source.num_bytes_per_token
    if row_bytes < slots_bytes:
        raise ValueError(
            f"{name}: a row has {row_bytes} bytes, less than page_size * num_bytes_per_token "
            f"= {slots_bytes}"
        )
    if num_rows * source.page_size < num_slots:
        raise ValueError(
            f"{name}: {num_rows} rows of {source.page_size} slots, less than the {num_slots} "
            "slots of canary_buf"
        )
