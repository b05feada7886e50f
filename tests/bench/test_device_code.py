"""The ptx lane of the benchmark's own kernels: compiled for sm_90 without a device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from numba import cuda, types

from kvaudit.bench import kernels
from kvaudit.bench.kernels import device_memory, engine_launch

INT32 = types.int32[::1]
INT64 = types.int64[::1]
UINT32 = types.uint32[::1]
UINT64 = types.uint64[::1]
ROWS = types.uint64[:, ::1]
TABLE = types.int32[:, ::1]
NUMBER = types.int64

SIGNATURES = {
    (device_memory, "_read_kernel"): (UINT64, UINT64),
    (device_memory, "_fill_kernel"): (UINT64, types.uint64),
    (engine_launch, "_engine_fold_kernel"): (UINT64, INT64, UINT64, *[NUMBER] * 3),
    (engine_launch, "_engine_verify_kernel"): (
        *(ROWS, INT64, UINT64, UINT64, INT64, UINT64, UINT32, ROWS, INT32),
        *[NUMBER] * 4,
    ),
    (engine_launch, "_engine_write_kernel"): (
        *(INT64, INT64, UINT64, UINT64, INT64, UINT64, ROWS, ROWS, INT32),
        *[NUMBER] * 4,
    ),
    (engine_launch, "_engine_offsets_kernel"): (INT64, INT64),
    (engine_launch, "_engine_plan_kernel"): (
        *(INT64, INT64, TABLE, TABLE),
        *(INT64, UINT64, UINT64, INT64),
    ),
}
READS_PAIRS = {
    "_read_kernel",
    "_engine_fold_kernel",
    "_engine_verify_kernel",
    "_engine_write_kernel",
}


def test_every_kernel_of_the_benchmark_is_compiled_here() -> None:
    defined = {
        name
        for path in Path(kernels.__file__).parent.glob("*.py")
        for name in re.findall(r"@kernel\ndef (\w+)", path.read_text())
    }
    assert defined == {name for _, name in SIGNATURES}


@pytest.mark.parametrize(("module", "name"), SIGNATURES, ids=lambda each: str(each)[-24:])
def test_kernel_compiles_without_a_float_and_reads_16_bytes_at_once(module, name: str) -> None:
    body = getattr(module, name).py_func
    ptx, _ = cuda.compile_ptx(body, SIGNATURES[module, name], device=False, cc=(9, 0))
    assert ".f64" not in ptx
    assert ".f32" not in ptx
    pairs = re.findall(r"ld\.(?:global\.)?v2\.[ub]64", ptx)
    assert bool(pairs) == (name in READS_PAIRS)
