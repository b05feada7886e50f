"""Slots are steps through a pool's memory, whatever its strides."""

from __future__ import annotations

import numpy as np
import torch

from kvaudit.capture.slot_view import GatheredColumn, SlotView
from kvaudit.core.kv_column import WINDOW_BYTES


def view_of(paged: torch.Tensor) -> SlotView:
    return SlotView.of(paged, name="kv.k.0", dtype="int16")


def gathered(view: SlotView, slots: list[int]) -> list[list[int]]:
    return view.gather(np.array(slots, dtype=np.int64)).view(np.int16).tolist()


def test_rows_are_the_pools_own_memory() -> None:
    memory = torch.zeros(4, 3, 2, 5, dtype=torch.int16)
    view = view_of(memory.transpose(1, 2))
    memory[3, 1, 1] = 7
    assert (view.num_slots, view.page_size) == (8, 2)
    assert gathered(view, [7, 6]) == [[0] * 5 + [7] * 5 + [0] * 5, [0] * 15]


def test_strides_of_which_none_divides_another_are_stepped_through() -> None:
    tensor = torch.arange(200, dtype=torch.int16).as_strided((4, 3, 2), (25, 10, 3), 7)
    assert gathered(view_of(tensor), [*range(12)]) == tensor.reshape(12, 2).tolist()


def test_one_page_repeated_over_the_pool_is_gathered() -> None:
    tensor = torch.arange(6, dtype=torch.int16).reshape(1, 2, 3).expand(4, 2, 3)
    assert gathered(view_of(tensor), [*range(8)]) == [[0, 1, 2], [3, 4, 5]] * 4


def test_one_value_repeated_over_the_pool_is_gathered() -> None:
    tensor = torch.tensor([9], dtype=torch.int16).expand(3, 2, 4)
    assert gathered(view_of(tensor), [0, 5]) == [[9] * 4] * 2


def test_the_whole_pool_and_no_more_is_reached() -> None:
    memory = torch.arange(2 * 3 * 4, dtype=torch.int16)
    view = view_of(memory[3:].view(7, 1, 3))
    assert view.rows.shape[0] == view.num_slots == 7
    assert gathered(view, [6]) == [[21, 22, 23]]


def test_a_pool_without_a_page_holds_no_slot() -> None:
    view = view_of(torch.zeros(0, 4, 2, dtype=torch.int16))
    assert (view.num_slots, view.row_bytes) == (0, 4)
    assert view.gather(np.empty(0, np.int64)).shape == (0, 4)


def test_a_column_gathers_no_more_than_a_window_at_a_time() -> None:
    numbers = torch.arange(3 * WINDOW_BYTES // 1024, dtype=torch.int32)
    view = SlotView.of(numbers[:, None, None].repeat(1, 1, 256), name="kv.v.3", dtype="int32")
    slots = np.arange(view.num_slots - 1, dtype=np.int64)
    column = GatheredColumn(view=view, slots=slots)
    windows = list(column.windows())
    assert [len(window.data) for window in windows] == [4096, 4096, 4095]
    assert [window.first_row for window in windows] == [0, 4096, 8192]
    joined = np.concatenate([window.data for window in windows]).view(np.int32)
    np.testing.assert_array_equal(joined[:, 0], slots)
    assert (column.name, column.dtype, column.is_resident) == ("kv.v.3", "int32", False)
    assert (column.row_bytes, column.read_bytes) == (1024, 1024)
