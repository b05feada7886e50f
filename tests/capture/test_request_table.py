"""Tables on a canary's device, and the batches that name their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.request_table import RequestTable, tokens_so_far

CPU = torch.device("cpu")


def _row(name: str, positions: range, slots: list[int], known: list[int] | None = None) -> PoolRow:
    return PoolRow(
        request_id=name,
        positions=positions,
        tokens=np.arange(positions.start, positions.stop) + 100,
        slots=np.array(slots, dtype=np.int64),
        known_tokens=None if known is None else np.array(known, dtype=np.int64),
        prompt_len=-1,
    )


def _batch(table: RequestTable, *rows: PoolRow) -> Any:
    return table.batch_of(rows, [row.chain() for row in rows])


def _table(**changes: bool) -> RequestTable:
    return RequestTable(CPU, **{"with_tokens": False, "with_expected_inputs": False, **changes})


def test_a_batch_names_what_each_request_reads_and_writes() -> None:
    table = _table()
    _batch(table, _row("a", range(3), [8, 9, 10]))
    batch = _batch(table, _row("b", range(2), [20, 21]), _row("a", range(3, 4), [8, 9, 10, 11]))
    assert batch.req_pool_indices.tolist() == [2, 1]
    assert batch.prefix_lens.tolist() == [0, 3]
    assert batch.extend_seq_lens.tolist() == [2, 1]
    assert batch.out_cache_loc.tolist() == [20, 21, 11]
    assert batch.positions.tolist() == [0, 1, 3]
    assert batch.input_ids.tolist() == [100, 101, 103]
    assert batch.req_to_token[1, :5].tolist() == [8, 9, 10, 11, 0]
    assert batch.req_to_token[2, :3].tolist() == [20, 21, 0]
    assert batch.req_to_verify_expected_tokens is None
    assert batch.expected_input_tokens is None


def test_a_table_follows_replaced_slots_and_gives_rows_away() -> None:
    table = _table()
    tensor = _batch(table, _row("a", range(4), [8, 9, 10, 11])).req_to_token
    _batch(table, _row("a", range(4, 5), [28, 29, 10, 11, 12]))
    assert tensor[1, :5].tolist() == [28, 29, 10, 11, 12]
    table.forget("a")
    _batch(table, _row("b", range(1), [40]))
    batch = _batch(table, _row("c", range(2), [50, 51]))
    assert batch.req_pool_indices.tolist() == [1]
    assert batch.req_to_token[1, :2].tolist() == [50, 51]


def test_a_table_grows_and_keeps_what_it_holds() -> None:
    table = _table()
    small = _batch(table, _row("a", range(2), [8, 9])).req_to_token
    slots = list(range(100, 100 + small.shape[1] + 1))
    batch = _batch(table, _row("b", range(len(slots)), slots))
    assert batch.req_to_token.shape[1] > small.shape[1]
    assert batch.req_to_token[1, :2].tolist() == [8, 9]
    assert batch.req_to_token[2, : len(slots)].tolist() == slots
    many = [_row(f"r{i}", range(1), [i + 1]) for i in range(small.shape[0])]
    batch = _batch(table, *many)
    assert batch.req_to_token[batch.req_pool_indices, 0].tolist() == [
        i + 1 for i in range(len(many))
    ]


def test_positions_that_left_a_window_are_padding() -> None:
    table = _table()
    _batch(table, _row("a", range(4), [8, 9, 10, 11]))
    batch = _batch(table, _row("a", range(4, 5), [9, 10, 11, 8]))
    assert batch.req_to_token[1, :5].tolist() == [0, 9, 10, 11, 8]
    assert (batch.prefix_lens.tolist(), batch.extend_seq_lens.tolist()) == ([4], [1])


def test_a_chain_behind_positions_that_are_not_stored_is_an_entry_of_its_own() -> None:
    """Its first entry verifies what the forward reads, its second writes from a head on."""
    table = _table()
    _batch(table, _row("a", range(4), [8, 9, 10, 11]))
    batch = _batch(table, _row("a", range(4, 10), [10, 11, 8, 9]))
    assert batch.req_pool_indices.tolist() == [1, 1]
    assert batch.prefix_lens.tolist() == [4, 0]
    assert batch.extend_seq_lens.tolist() == [0, 4]
    assert batch.positions.tolist() == [6, 7, 8, 9]
    assert batch.input_ids.tolist() == [106, 107, 108, 109]
    assert batch.req_to_token[1, :10].tolist() == [0] * 6 + [10, 11, 8, 9]


def test_expected_tokens_are_those_of_this_request() -> None:
    table = _table(with_tokens=True)
    known = [7, 6, 5, 4]
    batch = _batch(table, _row("a", range(2), [8, 9], known))
    assert batch.req_to_verify_expected_tokens[1, :3].tolist() == [7, 6, -1]
    batch = _batch(table, _row("a", range(2, 4), [8, 9, 10, 11], known))
    assert batch.req_to_verify_expected_tokens[1, :5].tolist() == [7, 6, 5, 4, -1]
    assert batch.req_to_verify_expected_tokens_valid_lens.tolist() == [2]
    table.forget("a")
    _batch(table, _row("b", range(1), [40]))
    batch = _batch(table, _row("c", range(2, 3), [50, 51, 52]))
    assert batch.req_to_verify_expected_tokens[1, :3].tolist() == [-1, -1, 102]


def test_expected_inputs_are_the_known_tokens_where_there_are_any() -> None:
    table = _table(with_expected_inputs=True)
    batch = _batch(
        table, _row("a", range(1, 3), [8, 9, 10], [7, 6, 5]), _row("b", range(2), [20, 21])
    )
    assert batch.expected_input_tokens.tolist() == [6, 5, 100, 101]
    assert batch.expected_input_positions.tolist() == batch.positions.tolist() == [1, 2, 0, 1]


def test_unknown_tokens_stand_before_those_that_are_run() -> None:
    assert tokens_so_far(_row("a", range(2, 4), [1, 2, 3, 4])).tolist() == [-1, -1, 102, 103]
    assert tokens_so_far(_row("a", range(2, 4), [1], [7])).tolist() == [-1, -1, 102, 103]
    assert tokens_so_far(_row("a", range(1), [1], [7, 8])).tolist() == [7]
