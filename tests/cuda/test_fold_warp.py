"""`fold_warp.cuh` gives the hashes of the reference: its warp on host threads, and on a device."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kvaudit.constants import PARTIAL_READ_BYTES, RealKvHashMode
from kvaudit.kernels.fold.reference import launch_combine, launch_fold
from tests.helpers.cpp_headers import (
    CUDA,
    INCLUDE,
    NVCC_WARNINGS,
    WARNINGS,
    RealKvSource,
    has_device,
    memory_at,
    real_kv_source,
    shared_library,
)

HERE = Path(__file__).parent
WARP = 32
TILE_BYTES = 128


@pytest.fixture(scope="module")
def host_warp(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("warp")
    return shared_library(HERE / "host_warp.cpp", folder, "-Wno-unknown-pragmas")


def by_reference(sources, slots, mode, geometries):
    """real_kv_hash of each slot; a geometry is page_size, num_bytes_per_token, read_bytes."""
    combined = np.zeros(len(slots), dtype=np.uint64)
    for source, (page_size, num_bytes_per_token, read_bytes) in zip(
        sources, geometries, strict=True
    ):
        covered = PARTIAL_READ_BYTES if mode is RealKvHashMode.PARTIAL else read_bytes
        hashes = np.zeros(len(slots), dtype=np.uint64)
        launch_fold(source, slots, hashes, page_size, num_bytes_per_token, covered)
        launch_combine(hashes, combined)
    return combined


@pytest.mark.parametrize("first_byte", [0, 8, 3])
@pytest.mark.parametrize("mode", [RealKvHashMode.ALL, RealKvHashMode.PARTIAL], ids=str)
@pytest.mark.parametrize("token_pairs", range(1, 20))
def test_a_warp_on_the_host_agrees_with_the_reference(host_warp, token_pairs, mode, first_byte):
    """Slots of up to three tiles, and every last word; a lane without a slot, slots taken twice."""
    ragged_bytes = token_pairs * 5 % 16
    geometries = [(3, 16 * token_pairs, 16 * token_pairs - rest) for rest in (0, ragged_bytes)]
    sources = [
        memory_at(8, page_size * num_bytes, first_byte=first)
        for (page_size, num_bytes, _), first in zip(geometries, (0, first_byte), strict=True)
    ]
    slots = np.random.default_rng(token_pairs).integers(-1, 25, WARP)
    slots[3] = -1
    packed = (RealKvSource * 2)(
        *(real_kv_source(source, *sizes) for source, sizes in zip(sources, geometries, strict=True))
    )
    got = np.zeros(WARP, dtype=np.uint64)
    host_warp.fold_by_warp(
        ctypes.byref(packed),
        ctypes.c_int64(2),
        ctypes.c_int32(mode),
        ctypes.c_void_p(slots.ctypes.data),
        ctypes.c_void_p(got.ctypes.data),
    )
    np.testing.assert_array_equal(got, by_reference(sources, slots, mode, geometries))


def test_no_fold_reads_past_the_last_slot(tmp_path):
    """The last slot ends where an unmapped page begins; a read behind it kills the program."""
    program = tmp_path / "guarded_fold"
    options = ["-std=c++17", "-O1", *WARNINGS, "-Wno-unknown-pragmas", "-pthread", f"-I{INCLUDE}"]
    subprocess.run(["g++", *options, HERE / "guarded_fold.cpp", "-o", program], check=True)
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "400 sizes\n")


@pytest.fixture(scope="module")
def device_warp(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("device")
    [kernel] = re.findall(
        r"```cpp\n([^`]*fold_slots.*?)```", (CUDA / "README.md").read_text(), re.DOTALL
    )
    (folder / "fold_slots.cuh").write_text(kernel)
    library = folder / "device_warp.so"
    options = ["-std=c++17", "-arch=native", *NVCC_WARNINGS, "-shared", "-Xcompiler=-fPIC"]
    subprocess.run(
        ["nvcc", *options, f"-I{INCLUDE}", f"-I{folder}", HERE / "device_warp.cu", "-o", library],
        check=True,
    )
    return ctypes.CDLL(str(library))


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.skipif(not has_device(), reason="no CUDA device")
@pytest.mark.parametrize("first_byte", [0, 8, 3])
@pytest.mark.parametrize(
    "read_bytes", [0, 5, 16, 100, TILE_BYTES, TILE_BYTES + 8, 3 * TILE_BYTES, 1000, 1024]
)
def test_the_readme_kernel_agrees_with_the_reference_on_the_device(
    device_warp, read_bytes, first_byte
):
    """Pages in random order; the last warp is not full, and two slots lie outside the pool."""
    page_size, num_bytes_per_token = 4, max(16, -(-read_bytes // 16) * 16)
    source = memory_at(150, page_size * num_bytes_per_token, first_byte=first_byte)
    slots = np.random.default_rng(read_bytes).permutation(600)[:500]
    slots[[3, 77]] = -1, 600
    hashes = np.full(len(slots), 7, dtype=np.uint64)
    failed = device_warp.fold_on_device(
        real_kv_source(source, page_size, num_bytes_per_token, read_bytes),
        ctypes.c_void_p(source.ctypes.data - first_byte),
        ctypes.c_int64(source.size + first_byte),
        ctypes.c_int64(first_byte),
        ctypes.c_void_p(slots.ctypes.data),
        ctypes.c_void_p(hashes.ctypes.data),
        ctypes.c_int64(len(slots)),
    )
    assert failed == 0
    wanted = np.zeros(len(slots), dtype=np.uint64)
    launch_fold(source, slots, wanted, page_size, num_bytes_per_token, read_bytes)
    np.testing.assert_array_equal(hashes, wanted)
