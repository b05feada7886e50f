"""`fold.cuh`: source hashes of any geometry, size and alignment, and what they combine to."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import PARTIAL_READ_BYTES, RealKvHashMode
from kvaudit.kernels.fold.reference import launch_combine, launch_fold
from tests.helpers.cpp_headers import (
    ON_HOST,
    RealKvSource,
    host_launches,
    memory_at,
    real_kv_source,
)

MODES = list(RealKvHashMode)


def folded(source: np.ndarray, slots: list[int], geometry: tuple[int, int, int]) -> np.ndarray:
    """What the reference makes of each slot; geometry: page_size, num_bytes_per_token, read_bytes."""
    hashes = np.zeros(len(slots), dtype=np.uint64)
    launch_fold(source, np.array(slots, dtype=np.int64), hashes, *geometry)
    return hashes


@given(
    page_size=st.integers(1, 5),
    num_bytes_per_token=st.integers(1, 300),
    gap_bytes=st.integers(0, 40),
    first_byte=st.integers(0, 15),
    data=st.data(),
)
def test_source_hash_agrees_with_the_reference_at_any_size_and_alignment(
    page_size, num_bytes_per_token, gap_bytes, first_byte, data
):
    read_bytes = data.draw(st.integers(0, num_bytes_per_token))
    rows = memory_at(3, page_size * num_bytes_per_token + gap_bytes, first_byte=first_byte)
    source = rows[:, : page_size * num_bytes_per_token]
    slots = list(range(-2, 3 * page_size + 2))
    geometry = (page_size, num_bytes_per_token, read_bytes)
    hashes = np.full(len(slots), 7, dtype=np.uint64)
    ON_HOST.run(
        "fold",
        source_bytes=source,
        slot_indices=np.array(slots, dtype=np.int64),
        source_hashes=hashes,
        page_size=page_size,
        num_bytes_per_token=num_bytes_per_token,
        read_bytes=read_bytes,
    )
    np.testing.assert_array_equal(hashes, folded(source, slots, geometry))


@given(hashes=st.lists(st.integers(0, 2**64 - 1), max_size=5))
def test_combine_agrees_with_the_reference(hashes):
    got, wanted = np.array([[0, 9], [0, 9]], dtype=np.uint64)
    for source_hash in hashes:
        source_hashes = np.array([source_hash, 1], dtype=np.uint64)
        ON_HOST.run("fold", "launch_combine", source_hashes=source_hashes, real_kv_hashes=got)
        launch_combine(source_hashes, wanted)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("num_sources", [0, 1, 5])
def test_real_kv_hash_agrees_with_the_reference_in_every_mode(mode, num_sources):
    """Sources differ in size; slot 11 lies outside the pool, as the last row ends with slot 9."""
    sizes = [16, 24, 128, 131, 320][:num_sources]
    sources = [memory_at(5, 2 * size, first_byte=0) for size in sizes]
    slots = [0, 3, 9, 11, -1]
    wanted = np.zeros(len(slots), dtype=np.uint64)
    if mode is not RealKvHashMode.NONE:
        for source, size in zip(sources, sizes, strict=True):
            read_bytes = PARTIAL_READ_BYTES if mode is RealKvHashMode.PARTIAL else size
            launch_combine(folded(source, slots, (2, size, read_bytes)), wanted)
    packed = (RealKvSource * num_sources)(
        *(
            real_kv_source(source, 2, size, size)
            for source, size in zip(sources, sizes, strict=True)
        )
    )
    library = host_launches()
    got = [library.real_kv_hash(ctypes.addressof(packed), num_sources, mode, s) for s in slots]
    assert got == wanted.tolist()
    assert all(got[:3]) == (mode is not RealKvHashMode.NONE and num_sources > 0)
