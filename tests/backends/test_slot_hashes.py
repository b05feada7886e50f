"""Every layout is hashed where it lies, and each hash is that of the slot's gathered bytes.

With the reference's kernels and, in a process of its own, with the simulated ones over host memory;
with the device's over CUDA tensors.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided

from kvaudit.backends import launch_fold
from kvaudit.backends import slot_hashes as module
from kvaudit.backends.kernel_set import kernel_set
from kvaudit.backends.launch_arrays import HostArrays, byte_rows
from kvaudit.backends.launch_kernels import LaunchKernels, device_kernels
from kvaudit.backends.slot_hashes import slot_hashes
from kvaudit.capture.layouts import slot_views
from kvaudit.capture.slot_view import SlotView
from kvaudit.kernels.fold import reference
from tests.helpers.lanes import IN_SIMULATOR

LAYERS, PAGES, PAGE_SIZE, HEADS, DIM = 2, 5, 4, 2, 8
NAMES = ("layer", "kv", "page", "slot", "head", "dim")
NHD, HND = "page slot head dim", "page head slot dim"
SLOTS = np.array([0, 3, 4, 11, 17, 19], dtype=np.int64)
# Simulated kernels multiply numpy scalars, which warn where the mixer wraps.
OVERFLOWS = "ignore:overflow encountered in scalar multiply:RuntimeWarning"


class Lane(NamedTuple):
    """Kernels, and the device of the tensors that they run on."""

    choice: Callable[[torch.device], LaunchKernels]
    device: str


class SimulatedArrays(HostArrays):
    """Host memory as the simulator's device arrays; it puts back what a kernel has only read."""

    def signed(self, tensor: torch.Tensor) -> Any:
        return device_array(tensor.numpy())

    def hashed_output(self, tensor: torch.Tensor) -> Any:
        return device_array(tensor.numpy().view(np.uint64))

    hashed = hashed_output

    def source(self, tensor: torch.Tensor) -> Any:
        return device_array(byte_rows(tensor).numpy())

    def rows_at(self, address: int, *, num_rows: int, row_bytes: int, step_bytes: int) -> Any:
        span_bytes = (num_rows - 1) * step_bytes + row_bytes
        memory = np.frombuffer((ctypes.c_uint8 * span_bytes).from_address(address), np.uint8)
        return device_array(as_strided(memory, (num_rows, row_bytes), (step_bytes, 1)))


def device_array(array: np.ndarray) -> Any:
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    return FakeCUDAArray(array)


def reference_kernels(_device: torch.device) -> LaunchKernels:
    return LaunchKernels(
        kernels=kernel_set("reference"), arrays=HostArrays(), bind_fold=launch_fold.bind_fold
    )


def simulated_kernels(_device: torch.device) -> LaunchKernels:
    return LaunchKernels(
        kernels=kernel_set("numba_cuda"), arrays=SimulatedArrays(), bind_fold=launch_fold.bind_fold
    )


LANES = [
    pytest.param(Lane(reference_kernels, "cpu"), id="reference"),
    pytest.param(
        Lane(simulated_kernels, "cpu"),
        id="simulator",
        marks=pytest.mark.skipif(not IN_SIMULATOR, reason="runs in the simulator's process"),
    ),
    pytest.param(
        Lane(device_kernels, "cuda"),
        id="cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(
                IN_SIMULATOR or not torch.cuda.is_available(), reason="no CUDA device"
            ),
        ],
    ),
]
each_lane = pytest.mark.parametrize("lane", LANES)


def pool(lane: Lane, dtype: torch.dtype = torch.bfloat16, dim: int = DIM) -> torch.Tensor:
    """Random bytes, shape [layer, kv, page, slot, head, dim]."""
    shape = (LAYERS, 2, PAGES, PAGE_SIZE, HEADS, dim * dtype.itemsize)
    generator = torch.Generator().manual_seed(11)
    values = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return values.to(lane.device).view(dtype)


def arranged(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The tensor with its dimensions in this order, in memory of its own."""
    names = NAMES[-tensor.dim() :]
    return tensor.permute([names.index(word) for word in layout.split()]).contiguous()


def apart(lane: Lane, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Copies that are allocated one by one, as an engine allocates its layers.

    In the simulator they lie apart in one allocation: it puts back all between them, too.
    """
    if lane.choice is not simulated_kernels:
        return tuple(tensor.clone() for tensor in tensors)
    starts = [idx * (1 << 14) for idx in range(len(tensors))]
    memory = torch.zeros(len(tensors) << 14, dtype=torch.uint8)
    copies = [
        memory[start:][: tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        for start, tensor in zip(reversed(starts), tensors, strict=True)
    ]
    return tuple(copy.copy_(tensor) for copy, tensor in zip(copies, tensors, strict=True))


def expected(view: SlotView, slots: np.ndarray = SLOTS) -> np.ndarray:
    """The reference's hash of the bytes that a dump would write."""
    rows = view.gather(slots)
    hashes = np.zeros(len(slots), dtype=np.uint64)
    reference.launch_fold(rows, np.arange(len(slots)), hashes, 1, view.row_bytes, view.row_bytes)
    return hashes.view(np.int64)


def assert_hashed(views: list[SlotView], lane: Lane, slots: np.ndarray = SLOTS) -> None:
    hashes = slot_hashes(views, slots, choice=lane.choice)
    assert len(hashes) == len(views)
    for view, column in zip(views, hashes, strict=True):
        np.testing.assert_array_equal(column, expected(view, slots), err_msg=view.name)
    assert len({int(value) for column in hashes for value in column}) == len(views) * len(slots)


@each_lane
@pytest.mark.parametrize(
    "layout",
    [
        "layer kv page slot head dim",
        "page layer kv slot head dim",
        "page slot layer kv head dim",
        "layer page slot head dim kv",
        "layer kv page head slot dim",
        "dim head slot page kv layer",
    ],
)
def test_one_tensor_over_all_layers_is_hashed(lane: Lane, layout: str) -> None:
    tensor = arranged(pool(lane), layout)
    assert_hashed(slot_views(tensor, layout=layout, page_size=PAGE_SIZE), lane)


@each_lane
@pytest.mark.parametrize(
    "layout",
    [
        "page slot head dim",
        "page head slot dim",
        "page head dim slot",
        "slot page dim head",
        "page slot dim head",
    ],
)
def test_a_pair_of_tensors_a_layer_is_hashed(lane: Lane, layout: str) -> None:
    halves = apart(lane, *(arranged(half, layout) for half in pool(lane).flatten(0, 1)))
    pairs = list(zip(halves[::2], halves[1::2], strict=True))
    assert_hashed(slot_views(pairs, layout=layout, page_size=PAGE_SIZE), lane)


@each_lane
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2],
    ids=str,
)
@pytest.mark.parametrize("layout", ["kv page slot head dim", "page kv head slot dim"])
def test_a_layer_of_any_dtype_is_its_bytes(lane: Lane, dtype: torch.dtype, layout: str) -> None:
    tensors = [arranged(layer, layout) for layer in pool(lane, dtype)]
    assert_hashed(slot_views(apart(lane, *tensors), layout=layout, page_size=PAGE_SIZE), lane)


@each_lane
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3)], ids=["slot head", "head slot"])
def test_slots_that_are_no_whole_words_and_lie_on_no_word_are_hashed(
    lane: Lane, order: tuple[int, ...]
) -> None:
    wider, aligned = apart(lane, pool(lane, torch.uint8, dim=9), pool(lane))
    odd = wider[..., 1:6].flatten(0, 1)
    layout = " ".join(NHD.split()[axis] for axis in order)
    views = slot_views([half.permute(order) for half in odd], layout=layout, page_size=PAGE_SIZE)
    views += slot_views(list(aligned[:, 0]), layout=NHD, page_size=PAGE_SIZE)
    assert_hashed(views, lane)


@each_lane
def test_columns_of_different_geometry_stay_in_their_order(lane: Lane) -> None:
    """Fused and narrow layers between others, as models with several attentions have."""
    tensor = pool(lane)
    first, second, flat, *headed = apart(
        lane, *tensor[0], tensor[1].flatten(1, 2), *(arranged(half, HND) for half in tensor[1])
    )
    views = [
        *slot_views([first], layout=NHD, page_size=PAGE_SIZE),
        *slot_views([second[:, :, 0]], layout="page slot dim", page_size=PAGE_SIZE),
        *slot_views([tuple(headed)], layout=HND, page_size=PAGE_SIZE),
        *slot_views([tuple(flat)], layout="slot head dim", page_size=PAGE_SIZE),
        *slot_views([second], layout=NHD, page_size=PAGE_SIZE),
    ]
    hashes = slot_hashes(views, SLOTS, choice=lane.choice)
    for view, column in zip(views, hashes, strict=True):
        np.testing.assert_array_equal(column, expected(view), err_msg=view.name)


@each_lane
def test_bounds_on_index_and_scratch_change_no_hash(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INDEX_BYTES", 3 * 8 * len(SLOTS))
    monkeypatch.setattr(module, "SCRATCH_BYTES", 2 * HEADS * DIM * 2)
    for layout in ("layer kv page slot head dim", "layer kv page head slot dim"):
        tensor = arranged(pool(lane), layout)
        assert_hashed(slot_views(tensor, layout=layout, page_size=PAGE_SIZE), lane)


@each_lane
@pytest.mark.parametrize("slot", [0, 7, 19])
def test_one_slot_of_one_column_is_hashed(lane: Lane, slot: int) -> None:
    views = slot_views([pool(lane)[0, 0]], layout=NHD, page_size=PAGE_SIZE)
    assert_hashed(views, lane, np.array([slot]))


@each_lane
def test_one_page_repeated_over_the_pool_is_hashed(lane: Lane) -> None:
    repeated = pool(lane)[0, 0, :1].expand(PAGES, -1, -1, -1)
    (view,) = slot_views([repeated], layout=NHD, page_size=PAGE_SIZE)
    (hashes,) = slot_hashes([view], SLOTS, choice=lane.choice)
    np.testing.assert_array_equal(hashes, expected(view))
    assert hashes[0] != hashes[1]


@each_lane
def test_no_slot_and_no_column_have_no_hash(lane: Lane) -> None:
    views = slot_views([tuple(pool(lane)[0])], layout=NHD, page_size=PAGE_SIZE)
    nothing = np.empty(0, dtype=np.int64)
    assert [len(column) for column in slot_hashes(views, nothing, choice=lane.choice)] == [0, 0]
    assert slot_hashes([], SLOTS, choice=lane.choice) == []


@each_lane
@pytest.mark.parametrize("layout", ["layer kv page slot head dim", "layer kv page head slot dim"])
def test_one_flipped_bit_changes_one_hash(lane: Lane, layout: str) -> None:
    tensor = arranged(pool(lane), layout)
    views = slot_views(tensor, layout=layout, page_size=PAGE_SIZE)
    before = np.stack(slot_hashes(views, SLOTS, choice=lane.choice))
    for column_idx, view in enumerate(views):
        row = view.rows[
            int(view.first_addresses(SLOTS[3:4])[0] - view.rows.data_ptr())
            // (view.rows.stride(0) * view.rows.element_size())
        ]
        row[-1, -1] ^= 1 << 9
        after = np.stack(slot_hashes(views, SLOTS, choice=lane.choice))
        assert np.argwhere(after != before).tolist() == [[column_idx, 3]]
        row[-1, -1] ^= 1 << 9


@each_lane
def test_pages_are_hashed_before_they_come_to_the_host(lane: Lane) -> None:
    views = slot_views([tuple(pool(lane)[0])], layout=NHD, page_size=PAGE_SIZE)
    rows_per_page = np.array([2, 1, 1, 2])
    hashes = slot_hashes(views, SLOTS, rows_per_page=rows_per_page, choice=lane.choice)
    for view, column in zip(views, hashes, strict=True):
        of_slots = expected(view).view(np.uint64)
        for page_hash, first, last in zip(column, [0, 2, 3, 4], [2, 3, 4, 6], strict=True):
            combined = np.zeros(1, np.uint64)
            for slot_hash in of_slots[first:last]:
                reference.launch_combine(np.array([slot_hash]), combined)
            assert page_hash == combined.view(np.int64)[0]


@pytest.mark.skipif(IN_SIMULATOR, reason="this is the simulator's process")
def test_the_device_kernels_pass_in_the_simulator() -> None:
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "pytest", "-q", "-k", "simulator and not device", "-p", "no:cacheprovider"),
            *("-W", OVERFLOWS, __file__),
        ],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^(\d+) passed, \d+ deselected", done.stdout, re.MULTILINE)
    assert passed, done.stdout
    assert int(passed[1]) >= 30
