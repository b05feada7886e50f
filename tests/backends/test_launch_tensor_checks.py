"""What is refused of any tensor of a launch; `test_launch_checks` has the rules of each."""

from __future__ import annotations

import pytest
import torch

from kvaudit.backends.launch_tensor_checks import (
    ANY_LENGTH,
    check_int64,
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


@pytest.mark.parametrize("value", [1.0, "1", None, 1 << 63])
def test_a_number_is_an_int64(value: object) -> None:
    check_int64(-(1 << 63), "offset")
    with pytest.raises(ValueError, match=r"^offset: "):
        check_int64(value, "offset")
