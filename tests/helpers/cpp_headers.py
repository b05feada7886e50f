"""The C++ headers as an implementation of the kernels: g++, ctypes, the contract's arrays."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.kernels.implementations import Implementation

ROOT = Path(__file__).parents[2]
CUDA = ROOT / "cuda"
INCLUDE = CUDA / "include"
HOST_LAUNCHES = ROOT / "tests" / "cuda" / "host_launches.cpp"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Werror")
NVCC_WARNINGS = ("-Werror=all-warnings", "-Xcompiler=-Wall,-Wextra")

_I64, _I32, _POINTER = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p


def has_device() -> bool:
    """Whether the driver finds a CUDA device, asked without a package that would choose a lane."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    started = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return started and count.value > 0


def shared_library(source: Path, folder: Path, *further: str) -> ctypes.CDLL:
    """A C++ file compiled with every warning an error, and loaded; further: options of g++."""
    library = folder / f"{source.stem}.so"
    options = ["-std=c++17", "-O1", *WARNINGS, "-pthread", "-shared", "-fPIC", f"-I{INCLUDE}"]
    subprocess.run(["g++", *options, *further, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


class RealKvSource(ctypes.Structure):
    """`kvaudit::RealKvSource`."""

    _fields_ = (
        ("bytes", _POINTER),
        ("num_rows", _I64),
        ("row_stride_bytes", _I64),
        ("page_size", _I64),
        ("num_bytes_per_token", _I64),
        ("read_bytes", _I64),
    )


class CanaryRecords(ctypes.Structure):
    """`kvaudit::CanaryRecords`."""

    _fields_ = (("words", _POINTER), ("num_slots", _I64), ("row_words", _I64))


class Launch(ctypes.Structure):
    """`kvaudit::Launch`."""

    _fields_ = (
        ("tag", _I32),
        ("violation_ring", _POINTER),
        ("ring_capacity", _I64),
        ("violation_write_index", _POINTER),
        ("slot_run_counter", _POINTER),
        ("kernel_run_counter", _POINTER),
    )


class Violation(ctypes.Structure):
    """`kvaudit::Violation`."""

    _fields_ = (
        ("slot", _I64),
        ("stored_position", ctypes.c_uint64),
        ("stored_token", ctypes.c_uint64),
        ("expected_token", ctypes.c_uint64),
        ("stored_chain_hash", ctypes.c_uint64),
        ("expected_aux", ctypes.c_uint64),
        ("reason_bits", ctypes.c_uint32),
    )


class VerifyPlan(ctypes.Structure):
    """`kvaudit::VerifyPlan`."""

    _fields_ = (
        ("slot_indices", _POINTER),
        ("prev_slot_indices", _POINTER),
        ("expected_tokens", _POINTER),
        ("expected_positions", _POINTER),
        ("real_kv_hashes", _POINTER),
        ("num_valid", _POINTER),
        ("enable", _POINTER),
        ("capacity", _I64),
        ("checks_tokens", ctypes.c_bool),
    )


class WritePlan(ctypes.Structure):
    """`kvaudit::WritePlan`."""

    _fields_ = (
        ("offsets", _POINTER),
        ("seed_slot_indices", _POINTER),
        ("num_valid_reqs", _POINTER),
        ("req_capacity", _I64),
        ("out_cache_loc", _POINTER),
        ("input_ids", _POINTER),
        ("positions", _POINTER),
        ("expected_input_tokens", _POINTER),
        ("expected_input_positions", _POINTER),
        ("real_kv_hashes", _POINTER),
        ("num_tokens", _I64),
        ("enable_chain_position_assert", _POINTER),
    )


def address(array: NDArray[Any]) -> int | None:
    """Where an array begins; an empty one is the header's nullptr."""
    return array.ctypes.data if array.size else None


def memory_at(num_rows: int, row_bytes: int, *, first_byte: int) -> NDArray[np.uint8]:
    """Random rows that begin first_byte past a 16-byte boundary, among random bytes."""
    size = num_rows * row_bytes
    flat = np.random.default_rng(size).integers(0, 256, size + 48, dtype=np.uint8)
    start = -flat.ctypes.data % 16 + first_byte
    return flat[start : start + size].reshape(num_rows, row_bytes)


def real_kv_source(
    source_bytes: NDArray[np.uint8], page_size: int, num_bytes_per_token: int, read_bytes: int
) -> RealKvSource:
    """A source over an array of shape [num_rows, row_bytes], of any stride(0)."""
    assert source_bytes.size == 0 or source_bytes.strides[1] == 1
    return RealKvSource(
        source_bytes.ctypes.data,
        len(source_bytes),
        source_bytes.strides[0],
        page_size,
        num_bytes_per_token,
        read_bytes,
    )


def records_of(canary_records: NDArray[np.uint64]) -> CanaryRecords:
    """Records of shape [num_slots, >= 4], of any stride(0)."""
    row_words = canary_records.strides[0] // canary_records.itemsize
    return CanaryRecords(canary_records.ctypes.data, len(canary_records), row_words)


def launch_of(arguments: dict[str, Any]) -> Launch:
    """A launch's tag, ring and counters, by the contract's names."""
    return Launch(
        arguments["launch_tag"],
        address(arguments["violation_ring"]),
        len(arguments["violation_ring"]),
        arguments["violation_write_index"].ctypes.data,
        arguments["slot_run_counter"].ctypes.data,
        arguments["kernel_run_counter"].ctypes.data,
    )


@cache
def host_launches() -> ctypes.CDLL:
    """`tests/cuda/host_launches.cpp`, compiled once a process."""
    with tempfile.TemporaryDirectory() as folder:
        library = shared_library(HOST_LAUNCHES, Path(folder))
    library.real_kv_hash.argtypes = [_POINTER, _I64, _I32, _I64]
    library.real_kv_hash.restype = ctypes.c_uint64
    return library


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers(Implementation):
    """The headers on the host.

    Fields:
        num_threads: host threads that share a verify or write launch, as a device's threads do.
        library: what has the launches as C calls, in the form of `host_launches.cpp`.
    """

    num_threads: int = 1
    library: Callable[[], ctypes.CDLL] = host_launches

    def run(self, op: str, /, launcher: str | None = None, **arguments: Any) -> None:
        """Launch one operation on numpy arrays and scalars, by the contract's names; in place."""
        launch: Callable[[dict[str, Any]], None] = getattr(self, launcher or f"launch_{op}")
        launch(arguments)

    def launch_hash(self, arguments: dict[str, Any]) -> None:
        """The contract of `kvaudit.kernels.hash`."""
        records = records_of(arguments["canary_records"])
        _over_entries("launch_hash", records, arguments["slot_indices"], arguments["slot_hashes"])

    def launch_fold(self, arguments: dict[str, Any]) -> None:
        """The contract of `kvaudit.kernels.fold`."""
        sizes = ("page_size", "num_bytes_per_token", "read_bytes")
        source = real_kv_source(arguments["source_bytes"], *(arguments[name] for name in sizes))
        _over_entries("launch_fold", source, arguments["slot_indices"], arguments["source_hashes"])

    def launch_combine(self, arguments: dict[str, Any]) -> None:
        """The contract of `kvaudit.kernels.fold`, the combination."""
        source_hashes, combined = arguments["source_hashes"], arguments["real_kv_hashes"]
        host_launches().launch_combine(
            *map(_POINTER, (source_hashes.ctypes.data, combined.ctypes.data)),
            _I64(len(combined)),
        )

    def launch_verify(self, arguments: dict[str, Any]) -> None:
        """The contract of `kvaudit.kernels.verify`."""
        plan = VerifyPlan(
            address(arguments["verify_slot_indices"]),
            address(arguments["verify_prev_slot_indices"]),
            address(arguments["verify_expected_tokens"]),
            address(arguments["verify_expected_positions"]),
            address(arguments["real_kv_hashes"]),
            address(arguments["verify_num_valid"]),
            address(arguments["enable"]),
            len(arguments["verify_slot_indices"]),
            arguments["check_verify_expected_token"],
        )
        bits = _POINTER(address(arguments["reason_bits"]))
        self._launch("launch_verify", arguments, plan, bits)

    def launch_write(self, arguments: dict[str, Any]) -> None:
        """The contract of `kvaudit.kernels.write`."""
        plan = WritePlan(
            address(arguments["write_offsets"]),
            address(arguments["write_seed_slot_indices"]),
            address(arguments["write_num_valid_reqs"]),
            len(arguments["write_seed_slot_indices"]),
            address(arguments["out_cache_loc"]),
            address(arguments["input_ids"]),
            address(arguments["positions"]),
            address(arguments["expected_input_tokens"]),
            address(arguments["expected_input_positions"]),
            address(arguments["real_kv_hashes"]),
            len(arguments["input_ids"]),
            address(arguments["enable_chain_position_assert"]),
        )
        self._launch("launch_write", arguments, plan)

    def _launch(
        self, name: str, arguments: dict[str, Any], plan: ctypes.Structure, *further: Any
    ) -> None:
        """One call that runs a launch; further: what it takes behind the launch."""
        given = (records_of(arguments["canary_records"]), plan, launch_of(arguments))
        function = getattr(self.library(), name)
        function(*map(ctypes.byref, given), *further, _I64(self.num_threads))


def _over_entries(
    name: str, given: ctypes.Structure, slots: NDArray[np.int64], hashes: NDArray[np.uint64]
) -> None:
    """One call that gives each slot its hash."""
    getattr(host_launches(), name)(
        ctypes.byref(given),
        *map(_POINTER, (slots.ctypes.data, hashes.ctypes.data)),
        _I64(len(slots)),
    )


ON_HOST = Headers(name="headers", module_stem="", keeps_order=True)
ON_HOST_THREADS = Headers(
    name="headers, 4 threads", module_stem="", keeps_order=False, num_threads=4
)
