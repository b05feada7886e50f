"""The headers lane: the C++ hash agrees with the reference through g++, and nvcc takes the headers."""

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

from kvaudit.constants import CHAIN_ANCHOR, CHAIN_ANCHOR_INPUT, MASK64, NO_PREDECESSOR, RECORD_WORDS
from kvaudit.kernels.fold import reference as fold_reference
from kvaudit.kernels.hash import reference

CUDA = Path(__file__).parents[2] / "cuda"
INCLUDE = CUDA / "include"
README = CUDA / "README.md"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
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
README_EXAMPLE = re.findall(r"```cpp\n(.*?)```", README.read_text(), re.DOTALL)[0]
README_ON_HOST = f"""
#define __device__
{README_EXAMPLE}
extern "C" void call_stamp(std::uint64_t* records, std::int64_t slot, std::int64_t prev_slot,
                           std::uint64_t token, std::uint64_t position, std::uint64_t hash) {{
  stamp(records, slot, prev_slot, token, position, hash);
}}
"""

words = st.integers(min_value=0, max_value=MASK64)


def _load(folder: Path, program: str) -> ctypes.CDLL:
    source, shared = folder / "program.cpp", folder / "program.so"
    source.write_text(program)
    subprocess.run(
        ["g++", "-std=c++17", *WARNINGS, "-shared", "-fPIC", f"-I{INCLUDE}", source, "-o", shared],
        check=True,
    )
    return ctypes.CDLL(str(shared))


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


def test_readme_example_continues_a_chain(tmp_path):
    call_stamp = _load(tmp_path, README_ON_HOST).call_stamp
    call_stamp.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * 2, *[ctypes.c_uint64] * 3]
    records = np.zeros((4, RECORD_WORDS), dtype=np.uint64)
    call_stamp(records.ctypes.data, 2, NO_PREDECESSOR, 11, 0, 7)
    call_stamp(records.ctypes.data, 3, 2, 12, 1, 8)
    assert records[2].tolist() == [11, 0, CHAIN_ANCHOR, 7]
    assert records[3].tolist() == [12, 1, reference.slot_hash(records, 2), 8]


@pytest.mark.parametrize("header", sorted(path.name for path in INCLUDE.rglob("*.cuh")))
def test_each_header_stands_alone(tmp_path, header):
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "kvaudit/{header}"\n#include "kvaudit/{header}"\n')
    subprocess.run(
        ["g++", "-std=c++17", *WARNINGS, "-fsyntax-only", f"-I{INCLUDE}", source], check=True
    )


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_compiles_the_readme_example_for_the_device(tmp_path):
    source = tmp_path / "hash.cu"
    source.write_text(README_EXAMPLE)
    command = ["nvcc", "-std=c++17", "-arch=sm_90", "-Werror=all-warnings", f"-I{INCLUDE}"]
    subprocess.run([*command, "-c", source, "-o", tmp_path / "hash.o"], check=True)
