"""Memory that is kept on the device; runs in the simulator's process of test_cuda.py."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends import device_arrays
from kvaudit.backends.device_arrays import DeviceArrays, DeviceViews
from kvaudit.kernels.cuda_module import SIMULATED, cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]


def test_the_next_call_takes_the_memory_of_the_last() -> None:
    arrays = DeviceArrays()
    first = [arrays.upload(np.arange(4), stream=0), arrays.empty((2, 3), np.dtype(np.uint8))]
    arrays.rewind()
    again = [arrays.upload(np.arange(4) + 9, stream=0), arrays.empty((2, 3), np.dtype(np.uint8))]
    assert all(one is other for one, other in zip(first, again, strict=True))
    np.testing.assert_array_equal(first[0].copy_to_host(), np.arange(4) + 9)
    assert arrays.num_bytes == 38


def test_arrays_of_one_call_never_share_memory() -> None:
    arrays = DeviceArrays()
    one, other = (arrays.upload(np.full(3, value), stream=0) for value in (1, 2))
    assert one.copy_to_host().tolist() == [1, 1, 1]
    assert other.copy_to_host().tolist() == [2, 2, 2]


@pytest.mark.parametrize("values", [np.zeros(5, np.uint64), np.zeros(4, np.int64)])
def test_another_shape_or_type_has_new_memory_in_place_of_the_old(values: np.ndarray) -> None:
    arrays = DeviceArrays()
    old = arrays.upload(np.zeros(4, np.uint64), stream=0)
    arrays.rewind()
    new = arrays.upload(values, stream=0)
    assert new is not old
    assert new.dtype == values.dtype
    assert new.copy_to_host().tolist() == values.tolist()
    assert arrays.num_bytes == values.nbytes


def test_a_view_is_made_once_and_shows_what_the_memory_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_arrays, "_MOST_VIEWS", 2)
    views = DeviceViews(10, np.uint64)
    views.memory.copy_to_device(np.arange(10, dtype=np.uint64))
    assert (len(views), views.num_bytes) == (10, 80)
    assert views.between(2, 5) is views.between(2, 5)
    views.between(2, 5).copy_to_device(np.array([20, 30, 40], dtype=np.uint64))
    for first, last in [(0, 10), (2, 5), (4, 4), (3, 9), (0, 10)]:
        expected = [0, 1, 20, 30, 40, 5, 6, 7, 8, 9][first:last]
        assert views.between(first, last).copy_to_host().tolist() == expected
