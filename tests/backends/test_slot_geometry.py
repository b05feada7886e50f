"""How columns lie: what one launch may fold together, and how wide a gather may read."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvaudit.backends.slot_geometry import SlotGeometry, widest
from kvaudit.capture.slot_view import SlotView


def geometry(paged: torch.Tensor) -> SlotGeometry:
    return SlotGeometry.of(SlotView.of(paged, name="kv.k.0", dtype="int16"))


def pool(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int16)


def test_columns_of_one_shape_lie_alike_wherever_they_are() -> None:
    assert geometry(pool(5, 4, 2, 8)) == geometry(pool(9, 4, 2, 8))
    assert geometry(pool(5, 4, 2, 8)) != geometry(pool(5, 4, 2, 16))
    assert geometry(pool(5, 4, 2, 8)) != geometry(pool(5, 8, 2, 8)[:, :4])


def test_strides_are_bytes() -> None:
    halves = pool(5, 2, 4, 2, 8)
    lies = geometry(halves[:, 1])
    assert (lies.row_bytes, lies.page_size, lies.page_stride, lies.slot_stride) == (32, 4, 256, 32)
    assert lies.offsets(torch.tensor([0, 3, 4, 19])).tolist() == [0, 96, 256, 4 * 256 + 96]


def test_a_pool_without_pages_has_one_stride() -> None:
    lies = geometry(pool(20, 1, 2, 8))
    assert (lies.page_stride, lies.slot_stride) == (32, 0)
    assert lies.offsets(torch.tensor([0, 7])).tolist() == [0, 224]


def test_the_reach_is_the_largest_offset_though_it_be_of_no_last_slot() -> None:
    slots = np.array([3, 18, 7])
    for paged in (pool(5, 4, 2, 8), pool(4, 5, 2, 8).transpose(0, 1)):
        lies = geometry(paged)
        assert lies.reach(slots) == int(lies.offsets(torch.from_numpy(slots)).max())
    assert lies.reach(slots) == lies.offsets(torch.tensor([7])).item()


@pytest.mark.parametrize(
    ("paged", "pieces"),
    [
        (pool(5, 4, 2, 8), (1, 32, 32)),
        (pool(5, 4, 2, 8)[:, ::2], (1, 32, 32)),
        (pool(5, 4, 2, 8)[..., :1, :4], (1, 8, 8)),
        (pool(5, 2, 4, 8).transpose(1, 2), (2, 16, 80)),
        (pool(5, 3, 2, 4, 8).permute(0, 3, 1, 2, 4), (6, 16, 5 * 64 + 16)),
        (pool(5, 4, 2, 8)[..., :4], (2, 8, 24)),
        (pool(5, 4, 1, 8).expand(-1, -1, 3, -1), (3, 16, 16)),
    ],
    ids=[
        "together",
        "slots apart",
        "one head of a wider row",
        "heads outside",
        "heads and a split dim outside",
        "gaps",
        "repeated heads",
    ],
)
def test_a_slot_s_bytes_lie_in_pieces_one_step_apart(
    paged: torch.Tensor, pieces: tuple[int, int, int]
) -> None:
    lies = geometry(paged)
    assert (lies.num_pieces, lies.piece_bytes, lies.span_bytes) == pieces


@pytest.mark.parametrize(
    "paged",
    [
        pool(5, 4, 8, 2).transpose(2, 3),
        pool(5, 2, 3, 4, 8).permute(0, 3, 2, 1, 4),
        pool(5, 2, 4, 6).transpose(1, 2),
        pool(5, 2, 5, 4)[..., 1:].reshape(5, 2, 15)[..., :12].view(5, 2, 3, 4).transpose(1, 2),
        pool(5 * 64 + 1).view(-1)[1:].view(5, 2, 4, 8).transpose(1, 2),
    ],
    ids=[
        "dim outside",
        "two steps",
        "pieces of no whole words",
        "a step of no whole words",
        "unaligned",
    ],
)
def test_other_slots_lie_in_no_pieces(paged: torch.Tensor) -> None:
    assert geometry(paged).num_pieces == 0


def test_an_unaligned_column_does_not_lie_like_aligned_ones() -> None:
    memory = pool(5 * 64 + 8).view(-1)
    aligned, shifted = (memory[start : start + 320].view(5, 4, 2, 8) for start in (0, 1))
    assert geometry(aligned) != geometry(shifted)
    assert geometry(aligned)._replace(phase=2) == geometry(shifted)


@pytest.mark.parametrize(
    ("rows", "dtype"),
    [
        (pool(6, 2, 8), torch.int64),
        (pool(6, 2, 6), torch.int32),
        (pool(6, 2, 5), torch.int16),
        (pool(6, 2, 9)[..., :8], torch.int16),
        (pool(6, 2, 8).transpose(1, 2), torch.int16),
    ],
)
def test_rows_are_gathered_in_the_widest_elements_that_fit(
    rows: torch.Tensor, dtype: torch.dtype
) -> None:
    rows.copy_(torch.arange(rows.numel(), dtype=torch.int16).view(rows.shape))
    wide = widest(rows)
    assert wide.dtype == dtype
    assert wide.data_ptr() == rows.data_ptr()
    assert wide.contiguous().view(torch.int16).flatten().tolist() == rows.flatten().tolist()
