from __future__ import annotations

import numpy as np

from kvaudit.backends import memory


def test_a_hashed_input_is_read_only_and_shares_memory() -> None:
    array = np.arange(-2, 4)
    view = memory.hashed_input(array)
    assert not view.flags.writeable
    assert view.flags.c_contiguous
    assert np.shares_memory(view, array)
    assert array.flags.writeable


def test_a_strided_input_is_copied_into_the_one_form() -> None:
    array = np.arange(12).reshape(3, 4)[:, ::2]
    view = memory.hashed_input(array)
    assert view.flags.c_contiguous
    assert not view.flags.writeable
    np.testing.assert_array_equal(view.view(np.int64), array)


def test_hashed_arrays_are_the_same_bits_as_uint64() -> None:
    array = np.array([-1, 5])
    assert memory.hashed_input(array).tolist() == [2**64 - 1, 5]
    output = memory.hashed_output(array)
    output[1] = 2**63
    assert array.tolist() == [-1, -(2**63)]


def test_what_is_absent_is_empty() -> None:
    assert memory.absent(np.uint64).shape == (0,)
    assert memory.no_ring().shape == (0, 8)
    assert memory.single(3, np.int32).tolist() == [3]
    assert memory.single(3, np.int32).dtype == np.int32
