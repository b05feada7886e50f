"""`plan` as DESIGN.md 3 words it, on Python ints."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    MASK64,
    NO_EXPECTED_TOKEN,
    NO_PREDECESSOR,
    NO_SEED,
    PADDING_REQUEST,
)
from kvaudit.kernels.hash.reference import wrapped


def _look_up(table: NDArray[Any], indices: tuple[int, ...], name: str) -> int:
    """table[indices]; ValueError outside it, where Python would count from the end."""
    if not all(0 <= index < length for index, length in zip(indices, table.shape, strict=True)):
        msg = f"{name}: {list(indices)} is outside its shape {list(table.shape)}"
        raise ValueError(msg)
    return int(table[indices])


def _mapped(full_to_swa_index_mapping: NDArray[np.int64], slot: int) -> int:
    """A slot through the map when there is one; a negative slot passes unchanged."""
    if slot < 0 or full_to_swa_index_mapping.shape[0] == 0:
        return slot
    return _look_up(full_to_swa_index_mapping, (slot,), "full_to_swa_index_mapping")


def _verify_positions(request: int, prefix: int, window: int) -> range:
    """Positions [max(0, prefix - window) if window else 0, prefix); none of a padding row."""
    if request == PADDING_REQUEST:
        return range(0)
    return range(max(0, prefix - window) if window else 0, prefix)


def launch_plan(
    req_pool_indices: NDArray[np.int64],
    prefix_lens: NDArray[np.int64],
    extend_seq_lens: NDArray[np.int64],
    req_to_token: NDArray[np.int32],
    full_to_swa_index_mapping: NDArray[np.int64],
    req_to_verify_expected_tokens: NDArray[np.int32],
    req_to_verify_expected_tokens_valid_lens: NDArray[np.int64],
    verify_slot_indices: NDArray[np.int64],
    verify_expected_tokens: NDArray[np.uint64],
    verify_expected_positions: NDArray[np.uint64],
    verify_prev_slot_indices: NDArray[np.int64],
    verify_num_valid: NDArray[np.int32],
    enable: NDArray[np.int32],
    write_offsets: NDArray[np.int64],
    write_seed_slot_indices: NDArray[np.int64],
    write_num_valid_reqs: NDArray[np.int32],
    swa_window_size: int,
    kv_token_id_vs_position_offset: int,
) -> None:
    """The contract of `kvaudit.kernels.plan`."""
    requests = [int(request) for request in req_pool_indices]
    prefixes = [int(prefix) for prefix in prefix_lens]
    extends = [int(extend) for extend in extend_seq_lens]

    def slot_at(request: int, position: int) -> int:
        slot = _look_up(req_to_token, (request, position), "req_to_token")
        return _mapped(full_to_swa_index_mapping, slot)

    def expected_token_at(batch_row: int, position: int) -> int:
        if req_to_verify_expected_tokens_valid_lens.shape[0] == 0:
            return NO_EXPECTED_TOKEN
        token_idx = position + kv_token_id_vs_position_offset
        if not 0 <= token_idx < int(req_to_verify_expected_tokens_valid_lens[batch_row]):
            return NO_EXPECTED_TOKEN
        indices = (requests[batch_row], token_idx)
        return _look_up(req_to_verify_expected_tokens, indices, "req_to_verify_expected_tokens")

    spans = [
        _verify_positions(request, prefix, swa_window_size)
        for request, prefix in zip(requests, prefixes, strict=True)
    ]
    capacity = verify_slot_indices.shape[0]
    requested = sum(max(0, span.stop - span.start) for span in spans)
    enable[0] = 1 if requested <= capacity else 0
    verify_num_valid[0] = min(requested, capacity)
    if requested <= capacity:
        entries = [(row, position) for row, span in enumerate(spans) for position in span]
        for entry, (row, position) in enumerate(entries):
            request = requests[row]
            verify_slot_indices[entry] = slot_at(request, position)
            verify_prev_slot_indices[entry] = (
                slot_at(request, position - 1) if position > 0 else NO_PREDECESSOR
            )
            verify_expected_tokens[entry] = expected_token_at(row, position) & MASK64
            verify_expected_positions[entry] = position

    write_offsets[:] = 0
    max_len = req_to_token.shape[1]
    for row, (request, prefix, extend) in enumerate(zip(requests, prefixes, extends, strict=True)):
        num_entries = 0 if request == PADDING_REQUEST else max(0, extend)
        write_offsets[row + 1] = wrapped(int(write_offsets[row]) + num_entries, 64)
        starts_chain = request == PADDING_REQUEST or extend <= 0 or prefix <= 0
        write_seed_slot_indices[row] = (
            NO_SEED if starts_chain else slot_at(request, min(prefix, max_len) - 1)
        )
    write_num_valid_reqs[0] = len(requests)
