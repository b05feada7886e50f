"""Launches as data: arguments by the contract's names, run on copies, compared completely."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PARTIAL_READ_BYTES, RealKvHashMode
from tests.helpers.vectors import VECTORS, VectorCase
from tests.kernels.implementations import Implementation

Arguments = dict[str, Any]

DTYPES: dict[str, type[np.generic]] = {
    "canary_records": np.uint64,
    "slot_indices": np.int64,
    "slot_hashes": np.uint64,
    "source_bytes": np.uint8,
    "source_hashes": np.uint64,
    "real_kv_hashes": np.uint64,
    "verify_slot_indices": np.int64,
    "verify_expected_tokens": np.uint64,
    "verify_expected_positions": np.uint64,
    "verify_prev_slot_indices": np.int64,
    "verify_num_valid": np.int32,
    "enable": np.int32,
    "reason_bits": np.uint32,
    "violation_ring": np.uint64,
    "violation_write_index": np.int32,
    "slot_run_counter": np.int64,
    "kernel_run_counter": np.int64,
    "write_offsets": np.int64,
    "write_seed_slot_indices": np.int64,
    "write_num_valid_reqs": np.int32,
    "input_ids": np.uint64,
    "positions": np.uint64,
    "out_cache_loc": np.int64,
    "expected_input_tokens": np.uint64,
    "expected_input_positions": np.uint64,
    "enable_chain_position_assert": np.int32,
    "req_pool_indices": np.int64,
    "prefix_lens": np.int64,
    "extend_seq_lens": np.int64,
    "req_to_token": np.int32,
    "full_to_swa_index_mapping": np.int64,
    "req_to_verify_expected_tokens": np.int32,
    "req_to_verify_expected_tokens_valid_lens": np.int64,
    "prev_slot_indices": np.int64,
    "duplicate_counter": np.int64,
}

# A list without rows does not say how long they would be.
_EMPTY_SHAPES = {
    "canary_records": (0, 4),
    "violation_ring": (0, 8),
    "req_to_verify_expected_tokens": (0, 0),
}

_COUNTERS = ("violation_ring", "violation_write_index", "slot_run_counter", "kernel_run_counter")
OUTPUTS = {
    "hash": ("slot_hashes",),
    "fold": ("source_hashes",),
    "verify": ("reason_bits", *_COUNTERS),
    "write": ("canary_records", *_COUNTERS),
    "plan": (
        "verify_slot_indices",
        "verify_expected_tokens",
        "verify_expected_positions",
        "verify_prev_slot_indices",
        "verify_num_valid",
        "enable",
        "write_offsets",
        "write_seed_slot_indices",
        "write_num_valid_reqs",
    ),
    "chain": ("prev_slot_indices", "duplicate_counter"),
}
UNTOUCHED = 0x5A5A


def array(name: str, values: Any) -> NDArray[Any]:
    """Values of either sign in the dtype that the contract gives to a name."""
    dtype = np.dtype(DTYPES[name])
    bits = 8 * dtype.itemsize
    flat = np.asarray(values, dtype=object)
    if flat.size == 0:
        shape = _EMPTY_SHAPES.get(name, flat.shape) if flat.ndim == 1 else flat.shape
        return np.zeros(shape, dtype=dtype)
    if dtype.kind == "u":
        flat = flat & ((1 << bits) - 1)
    return flat.astype(dtype)


def arguments(**values: Any) -> Arguments:
    """Arguments of a launch: what the contract calls an array becomes one, scalars stay."""
    return {name: array(name, value) if name in DTYPES else value for name, value in values.items()}


def verify_launch(
    *, records: Any, slots: Sequence[int], prevs: Sequence[int], **changed: Any
) -> Arguments:
    """A verify launch of every entry given, expecting token -1, position 0 and hash 0 by default."""
    num_entries = len(slots)
    values: dict[str, Any] = {
        "canary_records": records,
        "verify_slot_indices": slots,
        "verify_expected_tokens": [-1] * num_entries,
        "verify_expected_positions": [0] * num_entries,
        "verify_prev_slot_indices": prevs,
        "verify_num_valid": [num_entries],
        "enable": [1],
        "real_kv_hashes": [],
        "reason_bits": [UNTOUCHED] * num_entries,
        "violation_ring": ring(16),
        "violation_write_index": [0],
        "slot_run_counter": [0],
        "kernel_run_counter": [0],
        "launch_tag": 2,
        "check_verify_expected_token": True,
    }
    return arguments(**(values | changed))


def write_launch(
    *,
    records: Any,
    tokens: Sequence[int],
    positions: Sequence[int],
    slots: Sequence[int],
    **changed: Any,
) -> Arguments:
    """A write launch of one request without a seed over all tokens, unless changed."""
    values: dict[str, Any] = {
        "write_offsets": [0, len(tokens)],
        "write_seed_slot_indices": [-1],
        "write_num_valid_reqs": [1],
        "input_ids": tokens,
        "positions": positions,
        "out_cache_loc": slots,
        "expected_input_tokens": [],
        "expected_input_positions": [],
        "real_kv_hashes": [],
        "enable_chain_position_assert": [1],
        "canary_records": records,
        "violation_ring": ring(16),
        "violation_write_index": [0],
        "slot_run_counter": [0],
        "kernel_run_counter": [0],
        "launch_tag": 3,
    }
    return arguments(**(values | changed))


def plan_launch(
    *,
    requests: Sequence[int],
    prefixes: Sequence[int],
    extends: Sequence[int],
    table: Any,
    **changed: Any,
) -> Arguments:
    """A plan launch for 12 entries and 4 requests, without map, window or tokens unless changed."""
    values: dict[str, Any] = {
        "req_pool_indices": requests,
        "prefix_lens": prefixes,
        "extend_seq_lens": extends,
        "req_to_token": table,
        "full_to_swa_index_mapping": [],
        "req_to_verify_expected_tokens": [],
        "req_to_verify_expected_tokens_valid_lens": [],
        "verify_slot_indices": [UNTOUCHED] * 12,
        "verify_expected_tokens": [UNTOUCHED] * 12,
        "verify_expected_positions": [UNTOUCHED] * 12,
        "verify_prev_slot_indices": [UNTOUCHED] * 12,
        "verify_num_valid": [UNTOUCHED],
        "enable": [UNTOUCHED],
        "write_offsets": [UNTOUCHED] * 5,
        "write_seed_slot_indices": [UNTOUCHED] * 4,
        "write_num_valid_reqs": [UNTOUCHED],
        "swa_window_size": 0,
        "kv_token_id_vs_position_offset": 0,
    }
    return arguments(**(values | changed))


def ring(capacity: int) -> NDArray[np.uint64]:
    """An empty violation ring, every field UNTOUCHED."""
    return np.full((capacity, 8), UNTOUCHED, dtype=np.uint64)


def outcome(
    implementation: Implementation,
    op: str,
    launch: Mapping[str, Any],
    *,
    launcher: str | None = None,
) -> Arguments:
    """Run on copies; the outputs, after checking that no input changed."""
    copies = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in launch.items()
    }
    implementation.run(op, launcher, **copies)
    for name, value in launch.items():
        if name not in OUTPUTS[op] and isinstance(value, np.ndarray):
            np.testing.assert_array_equal(copies[name], value, err_msg=f"input {name} changed")
    return {name: copies[name] for name in OUTPUTS[op]}


def assert_same_outcome(
    implementation: Implementation,
    got: Mapping[str, Any],
    wanted: Mapping[str, Any],
    *,
    first_row: int = 0,
) -> None:
    """Equality of all outputs; ring rows as a multiset, when none is lost, where order is free.

    first_row is the ring's write index before the launch: rows before row 0 are lost like those
    past the last one.
    """
    for name, value in wanted.items():
        if name != "violation_ring" or implementation.keeps_order:
            np.testing.assert_array_equal(got[name], value, err_msg=name)
    if "violation_ring" in wanted and not implementation.keeps_order:
        rows, wanted_rows = got["violation_ring"], wanted["violation_ring"]
        if first_row >= 0 and int(wanted["violation_write_index"][0]) <= wanted_rows.shape[0]:
            assert sorted(rows.tolist()) == sorted(wanted_rows.tolist())
        else:
            assert (rows == UNTOUCHED).all(axis=1).sum() == (wanted_rows == UNTOUCHED).all(
                axis=1
            ).sum()


def wanted_of(case: VectorCase) -> Arguments:
    """A case's outputs by the contract's names, in its dtypes."""
    return {name: array(name, value) for name, value in renamed(case.outputs).items()}


def folded_hashes(
    case: VectorCase, implementation: Implementation, slots: NDArray[np.int64]
) -> Any:
    """Combined hash of each slot through the implementation's own fold; [] in mode NONE."""
    mode, num_sources = int(case.inputs["real_kv_hash_mode"]), int(case.inputs["num_sources"])
    if mode == RealKvHashMode.NONE or num_sources == 0:
        return []
    real_kv_hashes = np.zeros(slots.shape, dtype=np.uint64)
    for source_idx in range(num_sources):
        params = case.inputs[f"source{source_idx}.params"]
        page_size, num_bytes_per_token, read_bytes = params.tolist()
        source_hashes = np.zeros(slots.shape, dtype=np.uint64)
        implementation.run(
            "fold",
            source_bytes=case.inputs[f"source{source_idx}.tensor"],
            slot_indices=slots,
            source_hashes=source_hashes,
            page_size=page_size,
            num_bytes_per_token=num_bytes_per_token,
            read_bytes=PARTIAL_READ_BYTES if mode == RealKvHashMode.PARTIAL else read_bytes,
        )
        implementation.run(
            "fold",
            "launch_combine",
            source_hashes=source_hashes,
            real_kv_hashes=real_kv_hashes,
        )
    return real_kv_hashes


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """A conformance file's names as the contract's."""
    return {
        "canary_records" if name == "canary_buf" else name: value for name, value in values.items()
    }


def malformed_vectors(op: str) -> dict[str, dict[str, Any]]:
    """Our own vectors for malformed input: name -> {in, out}; out is None where a host refuses."""
    text = (VECTORS / f"malformed_{op}.json").read_text()
    return {
        name: {
            "in": arguments(**case["in"]),
            "out": None if case["out"] is None else arguments(**case["out"]),
        }
        for name, case in json.loads(text).items()
    }
