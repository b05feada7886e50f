from __future__ import annotations

import numpy as np
import torch

from kvaudit.backends.launch_arrays import HostArrays, byte_rows, or_absent

HOST = torch.device("cpu")


def test_host_arrays_share_the_tensors_memory() -> None:
    arrays = HostArrays()
    tensor = torch.arange(-2, 4)
    assert np.shares_memory(arrays.signed(tensor), tensor.numpy())
    assert arrays.hashed(tensor)[0] == 2**64 - 2
    arrays.hashed_output(tensor)[0] = 7
    arrays.signed_output(tensor)[1] = -9
    assert tensor[:2].tolist() == [7, -9]


def test_host_inputs_are_read_only_and_outputs_are_not() -> None:
    arrays = HostArrays()
    tensor = torch.arange(4)
    inputs = [
        arrays.signed(tensor),
        arrays.hashed(tensor),
        arrays.source(torch.zeros((2, 16))),
        arrays.written(arrays.hashed_output(tensor)),
    ]
    outputs = [arrays.signed_output(tensor), arrays.hashed_output(tensor)]
    assert not any(array.flags.writeable for array in inputs)
    assert all(array.flags.writeable for array in outputs)
    assert arrays.no_reason_bits().shape == (0,)


def test_a_typed_page_is_seen_as_rows_of_bytes_without_a_copy() -> None:
    pages = torch.zeros((3, 2, 4, 8), dtype=torch.bfloat16)
    rows = byte_rows(pages)
    assert rows.shape == (3, 2 * 4 * 8 * 2)
    rows[2, 5] = 1
    assert pages[2].view(torch.uint8).sum() == 1


def test_rows_of_a_wider_buffer_keep_their_stride() -> None:
    wide = torch.zeros((4, 2, 32), dtype=torch.float16)
    rows = byte_rows(wide[:, 1])
    assert rows.shape == (4, 64)
    assert rows.stride() == (128, 1)


def test_a_source_without_rows_has_none() -> None:
    assert byte_rows(torch.zeros((0, 4), dtype=torch.float32)).shape == (0, 16)


def test_none_becomes_an_empty_tensor() -> None:
    tensor = torch.arange(3)
    assert or_absent(tensor, torch.int64, device=HOST) is tensor
    assert or_absent(None, torch.int32, device=HOST, dims=2).shape == (0, 0)
    assert or_absent(None, torch.int32, device=HOST).dtype == torch.int32


def test_host_tensors_need_no_writing_back() -> None:
    arrays = HostArrays()
    tensor = torch.arange(3)
    arrays.signed_output(tensor)[0] = 5
    arrays.write_back()
    assert tensor.tolist() == [5, 1, 2]


def test_rows_at_an_address_are_a_steps_apart_view_of_what_lies_there() -> None:
    tensor = torch.arange(64, dtype=torch.uint8)
    rows = HostArrays().rows_at(tensor.data_ptr() + 8, num_rows=4, row_bytes=24, step_bytes=8)
    assert rows.shape == (4, 24)
    assert rows[:, 0].tolist() == [8, 16, 24, 32]
    assert rows[3].tolist() == list(range(32, 56))
    tensor[8] = 99
    assert rows[0, 0] == 99
    assert not rows.flags.writeable
