"""The table of a replay, kept while its trace is written."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.capture.request_rows import RequestRows


def int64(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def changes(rows: RequestRows) -> tuple[list, list]:
    """The edits and the freed requests since they were taken last."""
    edits, freed = rows.take_changes()
    pairs = zip(freed.request_index.tolist(), freed.lens.tolist(), strict=True)
    return [(row, first, slots.tolist()) for row, first, slots in edits], list(pairs)


@pytest.fixture
def rows() -> RequestRows:
    """Request a has the slots 4, 5, 6 in row 1, all of them told."""
    made = RequestRows()
    made.set_table("a", int64(4, 5, 6), kv_len=3)
    assert changes(made) == ([(1, 0, [4, 5, 6])], [])
    return made


def test_a_table_that_is_as_before_is_no_edit(rows: RequestRows) -> None:
    rows.set_table("a", int64(4, 5, 6), kv_len=3)
    rows.set_table("a", int64(4, 5), kv_len=2)
    assert changes(rows) == ([], [])


def test_an_edit_holds_the_positions_from_the_first_difference_to_the_last(
    rows: RequestRows,
) -> None:
    rows.set_table("a", int64(4, 15, 6, 17, 18), kv_len=5)
    assert changes(rows) == ([(1, 1, [15, 6, 17, 18])], [])


def test_what_a_write_sets_is_no_edit(rows: RequestRows) -> None:
    rows.set_written("a", int64(7, 8), first=3)
    rows.set_table("a", int64(4, 5, 6, 7, 8), kv_len=5)
    assert changes(rows) == ([], [])
    assert rows.kv_len_of("a") == 5


def test_positions_that_left_the_window_lose_their_slots(rows: RequestRows) -> None:
    rows.set_table("a", int64(5, 6), kv_len=3)
    assert changes(rows) == ([(1, 0, [-1])], [])
    rows.set_written("a", int64(-1, 7), first=3)
    rows.set_table("a", int64(7), kv_len=5)
    assert changes(rows) == ([(1, 1, [-1, -1])], [])


def test_a_request_that_is_cut_is_freed_with_what_is_left(rows: RequestRows) -> None:
    rows.cut("a", 9)
    assert rows.kv_len_of("a") == 3
    rows.cut("a", 2)
    rows.free("a")
    assert not rows.has("a")
    assert changes(rows) == ([], [(1, 2)])


def test_a_freed_row_is_given_away_only_after_its_end_was_told(rows: RequestRows) -> None:
    rows.free("a")
    assert rows.index_of("b") == 2
    rows.free("unknown")
    assert changes(rows) == ([], [(1, 3)])
    assert rows.index_of("c") == 1
    rows.set_table("c", int64(4), kv_len=1)
    assert changes(rows) == ([(1, 0, [4])], [])


def test_an_edit_keeps_its_slots_whatever_follows(rows: RequestRows) -> None:
    table = int64(14, 15)
    rows.set_table("a", table, kv_len=2)
    table[:] = 0
    rows.set_written("a", int64(99), first=0)
    assert changes(rows) == ([(1, 0, [14, 15])], [])
