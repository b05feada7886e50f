"""The shared vectors as launches, by the contract's names."""

from __future__ import annotations

from tests.helpers.vectors import VectorCase
from tests.kernels.implementations import Implementation
from tests.kernels.launches import Arguments, arguments, folded_hashes, renamed

_STATE = (
    "canary_records",
    "violation_ring",
    "violation_write_index",
    "slot_run_counter",
    "kernel_run_counter",
)
_VERIFIED = (
    "verify_slot_indices",
    "verify_expected_tokens",
    "verify_expected_positions",
    "verify_prev_slot_indices",
    "verify_num_valid",
    "enable",
)
_WRITTEN = (
    "write_offsets",
    "write_seed_slot_indices",
    "write_num_valid_reqs",
    "input_ids",
    "positions",
    "out_cache_loc",
    "enable_chain_position_assert",
)
_EXPECTED = ("expected_input_tokens", "expected_input_positions")


def verify_vector(case: VectorCase, implementation: Implementation) -> Arguments:
    """A case of `verify`, its bytes folded by the implementation; no reason bits are wanted."""
    inputs = renamed(case.inputs)
    return arguments(
        **{name: inputs[name] for name in (*_VERIFIED, *_STATE)},
        real_kv_hashes=folded_hashes(case, implementation, inputs["verify_slot_indices"]),
        reason_bits=[],
        launch_tag=int(inputs["kernel_kind"]),
        check_verify_expected_token=bool(inputs["check_verify_expected_token"]),
    )


def write_vector(case: VectorCase, implementation: Implementation) -> Arguments:
    """A case of `write`, its bytes folded by the implementation."""
    inputs = renamed(case.inputs)
    asserts_input = bool(inputs["enable_write_input_assert"])
    return arguments(
        **{name: inputs[name] for name in (*_WRITTEN, *_STATE)},
        **{name: inputs[name] if asserts_input else [] for name in _EXPECTED},
        real_kv_hashes=folded_hashes(case, implementation, inputs["out_cache_loc"]),
        launch_tag=int(inputs["kernel_kind"]),
    )
