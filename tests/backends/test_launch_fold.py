"""The sources of a launch: any dtype, any row stride, any number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kvaudit.backends import launch
from kvaudit.constants import RECORD_REAL_KV_HASH
from kvaudit.kernels.fold import reference
from tests.helpers.torch_launches import make_context, make_source, stamp_all, state_of

NUM_SLOTS = 8
VERIFIERS = [
    pytest.param(launch.launch_canary_verify_kernel_torch_reference, id="reference"),
    pytest.param(launch.launch_canary_verify_kernel, id="cpu"),
]
WRITERS = [
    pytest.param(launch.launch_canary_write_kernel_torch_reference, id="reference"),
    pytest.param(launch.launch_canary_write_kernel, id="cpu"),
]


def stamped_hashes(write: Any, sources: list[Any], mode: launch.RealKvHashMode) -> list[int]:
    """real_kv_hash of slots 1.. as a write launch stores it."""
    context = make_context(real_kv_sources=sources, real_kv_hash_mode=mode)
    stamp_all(context, write)
    column = state_of(context)["canary_buf"][1:, RECORD_REAL_KV_HASH]
    return column.view(np.uint64).tolist()


def folded(data: np.ndarray, read_bytes: int) -> np.ndarray:
    """Source hashes of slots 1.. of dense slots, by the reference kernel."""
    hashes = np.zeros(NUM_SLOTS - 1, dtype=np.uint64)
    slots = np.arange(1, NUM_SLOTS)
    reference.launch_fold(data, slots, hashes, 1, data.shape[1], read_bytes)
    return hashes


def combined(*source_hashes: np.ndarray) -> list[int]:
    real_kv_hashes = np.zeros(NUM_SLOTS - 1, dtype=np.uint64)
    for hashes in source_hashes:
        reference.launch_combine(hashes, real_kv_hashes)
    return real_kv_hashes.tolist()


@pytest.mark.parametrize("write", WRITERS)
def test_mode_all_folds_read_bytes_and_combines_in_order(write: Any) -> None:
    first, second = make_source(), make_source(read_bytes=16)
    data = first.tensor.numpy().reshape(NUM_SLOTS, 32)
    expected = combined(folded(data, 32), folded(data, 16))
    assert stamped_hashes(write, [first, second], launch.RealKvHashMode.ALL) == expected
    assert expected != combined(folded(data, 16), folded(data, 32))


@pytest.mark.parametrize("write", WRITERS)
def test_mode_partial_folds_the_first_sixteen_bytes(write: Any) -> None:
    source = make_source()
    data = source.tensor.numpy().reshape(NUM_SLOTS, 32)
    expected = combined(folded(data, 16))
    assert stamped_hashes(write, [source], launch.RealKvHashMode.PARTIAL) == expected


@pytest.mark.parametrize("write", WRITERS)
def test_mode_none_and_no_source_store_zero(write: Any) -> None:
    zeros = [0] * (NUM_SLOTS - 1)
    assert stamped_hashes(write, [make_source()], launch.RealKvHashMode.NONE) == zeros
    assert stamped_hashes(write, [], launch.RealKvHashMode.ALL) == zeros


@pytest.mark.parametrize("write", WRITERS)
def test_keys_and_values_of_one_flat_buffer_equal_their_copies(write: Any) -> None:
    """K and V of a layer are strided views of one buffer, as paged engines allocate them."""
    random = torch.Generator().manual_seed(5)
    flat = torch.randn((NUM_SLOTS // 2, 2, 2, 16), generator=random).to(torch.bfloat16)
    views = [flat[:, half] for half in range(2)]
    assert not views[0].is_contiguous()
    for tensors in (views, [view.flatten(1) for view in views]):
        strided = [make_source(tensor=tensor) for tensor in tensors]
        dense = [make_source(tensor=tensor.contiguous()) for tensor in tensors]
        hashes = stamped_hashes(write, strided, launch.RealKvHashMode.ALL)
        assert hashes == stamped_hashes(write, dense, launch.RealKvHashMode.ALL)
        assert len(set(hashes)) == NUM_SLOTS - 1


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.uint8],
)
def test_a_source_of_any_dtype_is_its_bytes(write: Any, dtype: torch.dtype) -> None:
    as_bytes = make_source()
    typed = make_source(tensor=as_bytes.tensor.view(dtype))
    hashes = stamped_hashes(write, [typed], launch.RealKvHashMode.ALL)
    assert hashes == stamped_hashes(write, [as_bytes], launch.RealKvHashMode.ALL)


@pytest.mark.parametrize("write", WRITERS)
def test_a_hundred_sources_are_folded(write: Any) -> None:
    source = make_source()
    data = source.tensor.numpy().reshape(NUM_SLOTS, 32)
    expected = combined(*[folded(data, 32)] * 100)
    assert stamped_hashes(write, [source] * 100, launch.RealKvHashMode.ALL) == expected


@pytest.mark.parametrize("verify", VERIFIERS)
def test_a_flipped_bit_in_a_strided_source_is_found_at_its_slot(verify: Any) -> None:
    wide = torch.zeros((NUM_SLOTS // 2, 128), dtype=torch.uint8)
    context = make_context(real_kv_sources=[make_source(tensor=wide[:, 32:96])])
    plan = stamp_all(context, launch.launch_canary_write_kernel)
    verify(context=context, plan=plan, check_verify_expected_token=True)
    assert context.violation_write_index.tolist() == [0]
    wide[2, 32 + 32 + 5] ^= 1  # slot 5: page 2, its second slot
    wide[3, 31] ^= 1  # between two rows: no slot's
    verify(context=context, plan=plan, check_verify_expected_token=True)
    assert context.violation_write_index.tolist() == [1]
    row = context.violation_ring[0].tolist()
    assert row[1] == 5
    assert row[-1] == launch.FailReason.VERIFY_REAL_KV_HASH_MISMATCH
