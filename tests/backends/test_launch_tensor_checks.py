"""What is refused of any tensor of a launch; `test_launch_checks` has the rules of each."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kvaudit.backends.launch_tensor_checks import (
    ANY_LENGTH,
    check_fields,
    check_flag,
    check_int64,
    check_is_tensor,
    check_memory,
    check_tensor,
    device_of,
)

HOST = torch.device("cpu")


def check(tensor: torch.Tensor) -> None:
    check_tensor(tensor, "ring", torch.int64, shape=(ANY_LENGTH, 8), device=HOST)


def test_a_tensor_that_fits_passes() -> None:
    check(torch.zeros((3, 8), dtype=torch.int64))
    check(torch.zeros((0, 8), dtype=torch.int64))


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (torch.zeros((3, 8)), "dtype is torch.float32, not torch.int64"),
        (torch.zeros((3, 7), dtype=torch.int64), r"shape is \[3, 7\], not \[any, 8\]"),
        (torch.zeros((3, 8), dtype=torch.int64, device="meta"), "is on meta, not on cpu"),
        (torch.zeros((8, 3), dtype=torch.int64).T, "is not contiguous"),
    ],
)
def test_what_differs_is_said(tensor: torch.Tensor, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^ring: {reason}"):
        check(tensor)


def test_a_tensor_whose_memory_was_given_back_is_refused_and_not_read() -> None:
    ring = torch.zeros((3, 8), dtype=torch.int64)
    row = ring[1]
    ring.untyped_storage().resize_(100)
    with pytest.raises(
        ValueError, match=r"^ring: its memory was given back: 100 bytes are left of"
    ):
        check(ring)
    with pytest.raises(ValueError, match="left of 128"):
        check_memory(row, "row")
    ring.untyped_storage().resize_(128)
    check_memory(row, "row")


def test_a_strided_tensor_needs_its_last_element_and_no_more() -> None:
    wide = torch.zeros((4, 32), dtype=torch.uint8)
    half = wide[:, :16]
    wide.untyped_storage().resize_(3 * 32 + 16)
    check_memory(half, "source")
    with pytest.raises(ValueError, match=r"^source: "):
        check_memory(wide, "source")


def test_what_is_no_tensor_has_no_device() -> None:
    assert device_of(torch.zeros(1), "ring") == HOST
    with pytest.raises(ValueError, match=r"^ring: is a list"):
        device_of([1], "ring")


@pytest.mark.parametrize(
    ("tensor", "oddity"),
    [
        (torch.zeros(2, 8).to_sparse(), "of layout torch.sparse_coo"),
        (torch.zeros(2, 8, dtype=torch.complex64).conj(), "a view of conjugates"),
        (torch.zeros(2, 8, dtype=torch.complex64).conj().imag, "a view of negatives"),
    ],
)
def test_memory_that_does_not_hold_the_elements_is_refused(
    tensor: torch.Tensor, oddity: str
) -> None:
    with pytest.raises(ValueError, match=f"^source: is {oddity}, "):
        check_is_tensor(tensor, "source")


@pytest.mark.filterwarnings("ignore:.*quantiz.*")
def test_a_quantized_tensor_is_refused() -> None:
    """Its bytes read as uint8 end the process."""
    quantized = torch.quantize_per_tensor(torch.zeros(2, 8), 0.1, 0, torch.quint8)
    with pytest.raises(ValueError, match=r"^source: is quantized, "):
        check_is_tensor(quantized, "source")


@pytest.mark.parametrize("value", [True, 0, np.True_])
def test_a_flag_is_a_bool_or_a_number(value: object) -> None:
    check_flag(value, "asserts")


@pytest.mark.parametrize("value", [None, "no", 1.0, torch.tensor(data=True)])
def test_what_is_no_flag_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"^asserts: is .*, not a bool"):
        check_flag(value, "asserts")


@dataclass
class Pair:
    first: int
    second: int


def test_a_missing_field_is_named() -> None:
    check_fields(SimpleNamespace(first=1, second=2, third=3), "pair", Pair)
    with pytest.raises(
        ValueError, match=r"^pair: is a SimpleNamespace, not a Pair: it has no second$"
    ):
        check_fields(SimpleNamespace(first=1), "pair", Pair)


@pytest.mark.parametrize("value", [1.0, "1", None, 1 << 63])
def test_a_number_is_an_int64(value: object) -> None:
    check_int64(-(1 << 63), "offset")
    with pytest.raises(ValueError, match=r"^offset: "):
        check_int64(value, "offset")
