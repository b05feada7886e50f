"""The headers lane: g++ and nvcc take the headers, and the hash and the README's kernels are right.

`tests/cuda` compares the operations with the reference.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import CHAIN_ANCHOR, CHAIN_ANCHOR_INPUT, MASK64, NO_SEED, RECORD_WORDS
from kvaudit.kernels.fold import reference as fold_reference
from kvaudit.kernels.hash import reference
from tests.helpers.cpp_headers import (
    CUDA,
    INCLUDE,
    NVCC_WARNINGS,
    ROOT,
    WARNINGS,
    Headers,
    launch_of,
    records_of,
    shared_library,
)
from tests.kernels.implementations import REFERENCE
from tests.kernels.launches import arguments, assert_same_outcome, outcome
from tests.kernels.test_verify import damaged
from tests.kernels.test_write import request_b

EXAMPLE = ROOT / "examples" / "stamp_from_cuda.cu"
README = CUDA / "README.md"
HOST_PROGRAM = """
#include <cstring>
#include "kvaudit/hash.cuh"

extern "C" {
std::uint64_t splitmix64(std::uint64_t value) { return kvaudit::splitmix64(value); }

std::uint64_t splitmix64_mix3(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return kvaudit::splitmix64_mix3(a, b, c);
}

std::uint64_t slot_hash(const std::uint64_t* records, std::int64_t row_words, std::int64_t slot) {
  return kvaudit::slot_hash(records, row_words, slot);
}

std::uint64_t fold(const unsigned char* bytes, std::int64_t num_words) {
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < num_words; ++i) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i * kvaudit::kWordBytes, sizeof word);
    hash = kvaudit::fold_word(hash, word);
  }
  return hash;
}
}
"""
STEP_KERNELS, STAMP_REQUEST, FOLD_SLOTS = re.findall(
    r"```cpp\n(.*?)```", README.read_text(), re.DOTALL
)
# One thread of a grid, so that a host runs the kernels as they stand on the page.
README_ON_HOST = f"""
#define __device__
#define __global__
struct Index {{ unsigned x; }};
constexpr Index blockIdx = {{0}}, threadIdx = {{0}}, blockDim = {{1}}, gridDim = {{1}};
{STEP_KERNELS}
{STAMP_REQUEST}
extern "C" {{
void launch_verify(const kvaudit::CanaryRecords* records, const kvaudit::VerifyPlan* plan,
                   const kvaudit::Launch* launch) {{
  check_step(*records, *plan, *launch);
}}

void launch_write(const kvaudit::CanaryRecords* records, const kvaudit::WritePlan* plan,
                  const kvaudit::Launch* launch) {{
  stamp_step(*records, *plan, *launch);
}}

void call_stamp_request(const kvaudit::CanaryRecords* records, const kvaudit::Launch* launch,
                        std::int64_t seed_slot, std::uint64_t first_position,
                        const std::uint64_t* tokens, const std::int64_t* slots,
                        const std::uint64_t* hashes, std::int64_t num_tokens) {{
  stamp_request(*records, *launch, seed_slot, first_position, tokens, slots, hashes, num_tokens);
}}
}}
"""

words = st.integers(min_value=0, max_value=MASK64)


def _load(folder: Path, program: str) -> ctypes.CDLL:
    source = folder / "program.cpp"
    source.write_text(program)
    return shared_library(source, folder)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = _load(tmp_path_factory.mktemp("headers"), HOST_PROGRAM)
    u64, i64 = ctypes.c_uint64, ctypes.c_int64
    for name, argument_types in {
        "splitmix64": [u64],
        "splitmix64_mix3": [u64, u64, u64],
        "slot_hash": [ctypes.c_void_p, i64, i64],
        "fold": [ctypes.c_char_p, i64],
    }.items():
        function = getattr(library, name)
        function.argtypes = argument_types
        function.restype = u64
    return library


def test_cpp_mixer_gives_the_pinned_anchor(library):
    assert library.splitmix64(CHAIN_ANCHOR_INPUT) == CHAIN_ANCHOR
    assert library.splitmix64(0) == 0


@given(first=words, second=words, third=words)
def test_cpp_mixer_agrees_with_the_reference(library, first, second, third):
    assert library.splitmix64(first) == reference.splitmix64(first)
    assert library.splitmix64_mix3(first, second, third) == reference.splitmix64_mix3(
        first, second, third
    )


@given(
    record=st.lists(words, min_size=RECORD_WORDS, max_size=RECORD_WORDS),
    row_words=st.integers(4, 6),
)
def test_cpp_slot_hash_agrees_with_the_reference(library, record, row_words):
    records = np.zeros((3, row_words), dtype=np.uint64)
    records[2, :RECORD_WORDS] = record
    for slot_idx in (-(1 << 63), -1, 0, 2):
        assert library.slot_hash(records.ctypes.data, row_words, slot_idx) == reference.slot_hash(
            records, slot_idx
        )


@given(slot_bytes=st.binary(max_size=96).map(lambda each: each[: len(each) // 8 * 8]))
def test_cpp_fold_agrees_with_the_reference(library, slot_bytes):
    assert library.fold(slot_bytes, len(slot_bytes) // 8) == fold_reference.source_hash(slot_bytes)


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Headers:
    library = _load(tmp_path_factory.mktemp("readme"), README_ON_HOST)
    return Headers(name="README", module_stem="", keeps_order=True, library=lambda: library)


def test_the_kernels_of_the_readme_stamp_and_check_a_step(readme):
    launch = request_b(slots=[6, -1, 8, 99], positions=[4, 1, 9, 3], write_seed_slot_indices=[0])
    wanted = outcome(REFERENCE, "write", launch)
    assert wanted["violation_write_index"][0] > 1
    assert_same_outcome(readme, outcome(readme, "write", launch), wanted)

    launch = damaged(1, 1, 7) | arguments(reason_bits=[])
    wanted = outcome(REFERENCE, "verify", launch)
    assert wanted["violation_write_index"][0] == 2
    assert_same_outcome(readme, outcome(readme, "verify", launch), wanted)


def test_the_function_of_the_readme_stamps_a_request_as_a_write_launch_does(readme):
    """But for the run, which its kernel counts."""
    launch = request_b(slots=[6, -1, 8, 99], real_kv_hashes=[5, 6, 7, 8])
    wanted = outcome(REFERENCE, "write", launch)
    arrays = [launch[name] for name in ("input_ids", "out_cache_loc", "real_kv_hashes")]
    readme.library().call_stamp_request(
        ctypes.byref(records_of(launch["canary_records"])),
        ctypes.byref(launch_of(launch)),
        ctypes.c_int64(NO_SEED),
        ctypes.c_uint64(0),
        *(ctypes.c_void_p(array.ctypes.data) for array in arrays),
        ctypes.c_int64(4),
    )
    assert (wanted.pop("kernel_run_counter"), launch["kernel_run_counter"]) == (1, 0)
    assert wanted["slot_run_counter"] == 2
    for name, value in wanted.items():
        np.testing.assert_array_equal(launch[name], value, err_msg=name)


@pytest.mark.parametrize("header", sorted(path.name for path in INCLUDE.rglob("*.cuh")))
def test_each_header_stands_alone(tmp_path, header):
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "kvaudit/{header}"\n#include "kvaudit/{header}"\n')
    subprocess.run(
        ["g++", "-std=c++17", *WARNINGS, "-fsyntax-only", f"-I{INCLUDE}", source], check=True
    )


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("source", ["README", "example"])
def test_nvcc_compiles_for_the_device(tmp_path, source, architecture):
    path = EXAMPLE
    if source == "README":
        path = tmp_path / "readme.cu"
        path.write_text(STEP_KERNELS + STAMP_REQUEST + FOLD_SLOTS)
    options = ["-std=c++17", f"-arch={architecture}", *NVCC_WARNINGS, f"-I{INCLUDE}"]
    subprocess.run(["nvcc", *options, "-c", path, "-o", tmp_path / "program.o"], check=True)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_each_host_compiler_takes_the_example(compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    # The example indexes vectors with int64, as kernels count; the headers convert nothing.
    options = ["-std=c++17", *WARNINGS, "-Wno-sign-conversion", "-fsyntax-only", "-x", "c++"]
    subprocess.run([compiler, *options, f"-I{INCLUDE}", EXAMPLE], check=True)
