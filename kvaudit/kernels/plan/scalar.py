"""Counts and look-ups of one batch row, compiled by njit and by cuda.jit alike.

Operands are int64; tables keep their own integer dtype.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants

_PADDING_REQUEST = constants.PADDING_REQUEST
_NO_EXPECTED_TOKEN = np.int64(constants.NO_EXPECTED_TOKEN)
_OUT_OF_TABLE_SLOT = np.int64(constants.OUT_OF_TABLE_SLOT)
_ZERO = np.int64(0)


def num_verify_entries(req_pool_idx, prefix_len, swa_window_size):
    """Entries that a row asks for; they end at position prefix_len - 1. int64, no overflow.

    A padding row asks for none.
    """
    if req_pool_idx == _PADDING_REQUEST or prefix_len <= 0:
        return _ZERO
    if swa_window_size == 0:
        return prefix_len
    return max(_ZERO, min(prefix_len, swa_window_size))


def num_write_entries(req_pool_idx, extend_seq_len):
    """Entries that a row writes; a padding row writes none. int64."""
    if req_pool_idx == _PADDING_REQUEST:
        return _ZERO
    return max(_ZERO, extend_seq_len)


def is_inside(table, req_pool_idx, column):
    """Whether a table of requests, of slots or of tokens, has that row and column."""
    return (
        req_pool_idx >= 0
        and req_pool_idx < table.shape[0]
        and column >= 0
        and column < table.shape[1]
    )


def is_mapped(full_to_swa_index_mapping, slot_idx):
    """Whether the full-to-SWA map has a slot; a negative one, and one without a map, needs none."""
    num_slots = full_to_swa_index_mapping.shape[0]
    return num_slots == 0 or slot_idx < num_slots


def make_table_slot(compiled_is_inside):
    """The body of table_slot, over a compiled is_inside."""

    def table_slot(req_to_token, req_pool_idx, position):
        # The slot at a position of a request; OUT_OF_TABLE_SLOT outside the table. int64.
        if not compiled_is_inside(req_to_token, req_pool_idx, position):
            return _OUT_OF_TABLE_SLOT
        return np.int64(req_to_token[req_pool_idx, position])

    return table_slot


def make_mapped_slot(compiled_is_mapped):
    """The body of mapped_slot, over a compiled is_mapped."""

    def mapped_slot(full_to_swa_index_mapping, slot_idx):
        # A slot through the full-to-SWA map; OUT_OF_TABLE_SLOT outside it. int64.
        if not compiled_is_mapped(full_to_swa_index_mapping, slot_idx):
            return _OUT_OF_TABLE_SLOT
        if slot_idx < 0 or full_to_swa_index_mapping.shape[0] == 0:
            return slot_idx
        return full_to_swa_index_mapping[slot_idx]

    return mapped_slot
