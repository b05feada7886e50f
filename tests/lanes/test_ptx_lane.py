"""The ptx lane: every device kernel compiles for sm_90 without a GPU, typed as the contracts say.

The simulator knows no types. Here a signed word, or one that became a float on its way, shows.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from numba import cuda, types

from kvaudit.kernels.cuda_module import SIMULATED
from tests.kernels.test_async_copy import copy_backwards

COMPUTE_CAPABILITY = (9, 0)
KERNELS = Path(__file__).parents[2] / "kvaudit" / "kernels"

INT32 = types.int32[::1]
INT64 = types.int64[::1]
UINT32 = types.uint32[::1]
UINT64 = types.uint64[::1]
FLAT_BYTES = types.uint8[:, ::1]
FLAT_WORDS = types.uint64[:, ::1]
TABLE = types.int32[:, ::1]
ROWS = types.uint64[:, ::1]
STRIDED_ROWS = types.uint64[:, :]
NUMBER = types.int64
FLAG = types.boolean
GEOMETRY = types.UniTuple(NUMBER, 6)

FOLDED = (INT64, INT32, INT32, UINT64, NUMBER, GEOMETRY)
PLANNED = (STRIDED_ROWS, INT64, UINT64, UINT64, INT64, INT32, INT32, UINT64)
JUDGED = (UINT32, ROWS, INT32, INT64, INT64, NUMBER, FLAG)
SIGNATURES = {
    ("hash", "_hash_kernel"): (STRIDED_ROWS, INT64, UINT64),
    ("fold", "fold_pairs_kernel"): (FLAT_WORDS, *FOLDED),
    ("fold", "fold_words_kernel"): (FLAT_WORDS, *FOLDED),
    ("fold", "fold_piece_pairs_kernel"): (FLAT_WORDS, *FOLDED, NUMBER, NUMBER),
    ("fold", "fold_piece_words_kernel"): (FLAT_WORDS, *FOLDED, NUMBER, NUMBER),
    ("fold", "_fold_short_kernel"): (FLAT_WORDS, *FOLDED),
    ("fold", "_fold_bytes_kernel"): (FLAT_BYTES, *FOLDED),
    ("fold", "_combine_kernel"): (UINT64, UINT64),
    ("fold", "_count_written_kernel"): (INT64, INT32, INT32, NUMBER),
    ("digest", "_sum_blocks_kernel"): (UINT64, UINT64, NUMBER, NUMBER),
    ("digest", "_chain_blocks_kernel"): (UINT64, UINT64, NUMBER, NUMBER),
    ("verify", "_verify_kernel"): (*PLANNED, *JUDGED),
    ("verify", "_verify_short_kernel"): (*PLANNED, FLAT_WORDS, *JUDGED, GEOMETRY),
    ("verify", "_verify_bytes_kernel"): (*PLANNED, FLAT_BYTES, *JUDGED, GEOMETRY),
    ("write", "_write_kernel"): (
        *(INT64, INT64, INT32, UINT64, UINT64, INT64, UINT64, UINT64, UINT64, INT32),
        *(STRIDED_ROWS, ROWS, INT32, INT64, INT64, NUMBER),
    ),
    ("plan", "plan_scan_kernel"): (
        *(INT64, INT64, INT64, NUMBER, INT32, INT32, INT64, INT64, INT32, NUMBER),
    ),
    ("plan", "_plan_fill_kernel"): (
        *(INT64, INT64, TABLE, INT64, TABLE, INT64, INT64, UINT64, UINT64, INT64),
        *(INT32, INT32, INT64, NUMBER, NUMBER),
    ),
    ("plan", "_plan_seed_kernel"): (INT64, INT64, INT64, TABLE, INT64, INT64, INT64),
}


def _ptx(function, signature, *, device: bool) -> str:
    assert not SIMULATED, "the simulator compiles nothing"
    compiled, _ = cuda.compile_ptx(function, signature, device=device, cc=COMPUTE_CAPABILITY)
    return compiled


def _kernel(op: str, name: str):
    return getattr(importlib.import_module(f"kvaudit.kernels.{op}.numba_cuda"), name)


def test_every_kernel_of_the_package_is_compiled_here():
    defined = {
        (path.parent.name, name)
        for path in KERNELS.glob("*/numba_cuda*.py")
        for name in re.findall(r"@kernel(?:\(.*\))?\ndef (\w+)", path.read_text())
    }
    assert defined == set(SIGNATURES)


@pytest.mark.parametrize(("op", "name"), SIGNATURES, ids=lambda each: each)
def test_kernel_compiles_without_a_float(op, name):
    ptx = _ptx(_kernel(op, name).py_func, SIGNATURES[op, name], device=False)
    assert ".target sm_90" in ptx
    assert ".entry" in ptx
    assert ".f64" not in ptx
    assert ".f32" not in ptx


@pytest.mark.parametrize(
    ("op", "name"), [("fold", "_fold_short_kernel"), ("verify", "_verify_short_kernel")]
)
def test_a_short_slot_is_read_in_one_load_a_pair(op, name):
    ptx = _ptx(_kernel(op, name).py_func, SIGNATURES[op, name], device=False)
    assert len(re.findall(r"ld\.global\.v2\.[ub]64", ptx)) >= 2


@pytest.mark.parametrize(
    ("name", "num_copies"),
    [
        ("fold_pairs_kernel", 8),
        ("fold_words_kernel", 16),
        ("fold_piece_pairs_kernel", 8),
        ("fold_piece_words_kernel", 16),
    ],
)
def test_fold_copies_past_registers_and_keeps_where_slots_start_in_them(name, num_copies):
    ptx = _ptx(_kernel("fold", name).py_func, SIGNATURES["fold", name], device=False)
    assert ".local" not in ptx
    assert ptx.count("cp.async.c") - ptx.count("cp.async.commit_group") == num_copies
    assert "bar.warp.sync" in ptx


def test_copies_are_one_instruction_each_and_pairs_one_load():
    signature = (FLAT_WORDS, UINT64, FLAG)
    ptx, _ = cuda.compile_ptx(copy_backwards, signature, cc=COMPUTE_CAPABILITY)
    copies = re.findall(
        r"cp\.async\.(ca|cg)\.shared\.global\.L2::256B \[\w+\], \[%\w+\], (\d+);", ptx
    )
    assert sorted(copies) == [("ca", "8"), ("ca", "8"), ("cg", "16")]
    assert len(re.findall(r"ld\.shared\.v2\.\w+", ptx)) == 1


@pytest.mark.parametrize("name", ["splitmix64", "splitmix64_mix3"])
def test_hash_alone_shifts_unsigned_words(name):
    function = _kernel("hash", name).py_func
    num_words = function.__code__.co_argcount
    ptx = _ptx(function, (types.uint64,) * num_words, device=True)
    assert ptx.count("shr.u64") == 3 * num_words
    assert "shr.s64" not in ptx
    assert ".f64" not in ptx


def test_a_signed_word_would_be_seen():
    ptx = _ptx(_kernel("hash", "splitmix64").py_func, (types.int64,), device=True)
    assert "shr.s64" in ptx or ".f64" in ptx
