"""Page tables, slots and lengths become sequences, or an error that names the argument."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvaudit.capture.tables import flat_sequences, live_slots, sequence_rows
from kvaudit.constants import OUT_OF_TABLE_SLOT
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError
from kvaudit.formats.limits import MAX_POSITION

PAGE_SIZE, NUM_SLOTS = 4, 40
ARGUMENTS = {
    "page_size": PAGE_SIZE,
    "page_tables": None,
    "slots": None,
    "tokens": None,
    "kv_lens": None,
    "request_ids": None,
    "extra_keys": None,
}


def rows_of(**arguments: object) -> list:
    return sequence_rows(**{**ARGUMENTS, **arguments})


def test_a_page_table_names_the_slot_of_each_token() -> None:
    (row,) = rows_of(page_tables=[[7, 2]], kv_lens=[6])
    assert row.slots.tolist() == [28, 29, 30, 31, 8, 9]
    assert row.kv_len == 6


def test_entries_past_kv_len_are_not_read() -> None:
    first, empty = rows_of(page_tables=[[7, -1, 99], [-1, -1, -1]], kv_lens=[4, 0])
    assert first.slots.tolist() == [28, 29, 30, 31]
    assert empty.slots.tolist() == []


@pytest.mark.parametrize(
    "kind",
    [
        lambda values: values,
        np.array,
        torch.tensor,
        lambda values: torch.tensor(values, dtype=torch.int32),
    ],
    ids=["lists", "numpy", "int64 tensor", "int32 tensor"],
)
def test_tables_may_be_lists_arrays_or_tensors(kind) -> None:
    rows = rows_of(
        page_tables=kind([[7, 2], [3, 0]]),
        kv_lens=kind([6, 2]),
        tokens=kind([[1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 0, 0, 0, 0]]),
    )
    assert [row.slots.tolist() for row in rows] == [[28, 29, 30, 31, 8, 9], [12, 13]]
    assert rows[0].tokens.tolist() == [1, 2, 3, 4, 5, 6, 7]


INT64_MIN, UINT64_MAX = -(1 << 63), (1 << 64) - 1


@pytest.mark.parametrize(
    ("page", "slots"),
    [
        (10, [40, 41, 42, 43]),
        (1 << 40, [(1 << 42) + offset for offset in range(4)]),
        (-1, [-1] * 4),
        (INT64_MIN, [-1] * 4),
        # The last page of int64, whose last slot is the sentinel's own number.
        ((1 << 61) - 1, [OUT_OF_TABLE_SLOT - 3 + offset for offset in range(4)]),
        # Times the page size these are slots of the pool, modulo 2^64.
        (1 << 61, [OUT_OF_TABLE_SLOT] * 4),
        (1 << 62, [OUT_OF_TABLE_SLOT] * 4),
        (-(1 << 62), [-1] * 4),
        (UINT64_MAX, [OUT_OF_TABLE_SLOT] * 4),
        (1 << 70, [OUT_OF_TABLE_SLOT] * 4),
        (-(1 << 70), [-1] * 4),
    ],
)
def test_a_page_outside_the_pool_never_wraps_into_it(page: int, slots: list[int]) -> None:
    (row,) = rows_of(page_tables=[[7, page, 2]], kv_lens=[9])
    assert row.slots.tolist() == [28, 29, 30, 31, *slots, 8]
    assert live_slots([row], NUM_SLOTS).tolist() == [8, 28, 29, 30, 31]


@pytest.mark.parametrize(
    "kind",
    [
        lambda: [(1 << 63), 3, -2],
        lambda: [np.uint64(1 << 63), 3, -2],
        lambda: np.array([1 << 63, 3, UINT64_MAX], dtype=np.uint64),
        lambda: torch.tensor([1 << 63, 3, UINT64_MAX], dtype=torch.uint64),
    ],
    ids=["ints", "numpy ints", "numpy", "tensor"],
)
def test_a_page_beyond_int64_is_out_of_table_whatever_holds_it(kind) -> None:
    (row,) = rows_of(page_tables=[kind()], kv_lens=[12])
    assert row.slots[:8].tolist() == [OUT_OF_TABLE_SLOT] * 4 + [12, 13, 14, 15]
    assert set(row.slots[8:].tolist()) <= {-1, OUT_OF_TABLE_SLOT}


def test_slots_outside_the_pool_stand_as_they_are() -> None:
    (row,) = rows_of(slots=[[5, 40, -7, 1 << 70, 6]])
    assert row.slots.tolist() == [5, 40, -7, OUT_OF_TABLE_SLOT, 6]
    assert live_slots([row], NUM_SLOTS).tolist() == [5, 6]


def test_a_table_that_ends_before_kv_len_gives_the_slots_it_has() -> None:
    pages, none = rows_of(page_tables=[[7, 2], []], kv_lens=[11, 3])
    assert (pages.slots.tolist(), pages.kv_len) == ([28, 29, 30, 31, 8, 9, 10, 11], 11)
    assert (none.slots.tolist(), none.kv_len) == ([], 3)
    (slots,) = rows_of(slots=[[5, 6]], kv_lens=[3], tokens=[[1, 2, 3]])
    assert (slots.slots.tolist(), slots.kv_len, len(slots.tokens)) == ([5, 6], 3, 3)


@pytest.mark.parametrize("kv_len", [1 << 37, 1 << 62, UINT64_MAX, 1 << 70])
def test_a_wild_kv_len_costs_no_memory(kv_len: int) -> None:
    (row,) = rows_of(page_tables=[[7]], kv_lens=[kv_len])
    assert row.kv_len == min(kv_len, MAX_POSITION)
    assert row.slots.tolist() == [28, 29, 30, 31]
    assert row.tokens.tolist() == [-1] * 4


def test_slots_without_lengths_hold_the_tokens_that_have_both() -> None:
    longer, shorter, unknown = rows_of(
        slots=[[5, 6, 7], [8], [9, 10]], tokens=[[1, 2], [3, 4], [5, 6]]
    )
    assert (longer.kv_len, shorter.kv_len, unknown.kv_len) == (2, 1, 2)
    assert live_slots([longer, shorter], NUM_SLOTS).tolist() == [5, 6, 8]
    further = np.array([30, 6, 2])
    assert live_slots([shorter, longer], NUM_SLOTS, further=further).tolist() == [2, 5, 6, 8, 30]


def test_requests_and_extra_keys_may_be_named_by_numbers() -> None:
    rows = rows_of(slots=[[1], [2]], request_ids=torch.tensor([7, 8]), extra_keys=[None, 3])
    assert [row.request_id for row in rows] == ["7", "8"]
    assert [row.extra_key for row in rows] == [None, "3"]


def test_unknown_tokens_are_minus_one() -> None:
    (row,) = rows_of(slots=[[5, 6, 7]])
    assert row.tokens.tolist() == [-1, -1, -1]
    assert row.request_id == "0"


def test_shared_slots_are_live_once() -> None:
    rows = rows_of(page_tables=[[2, 3], [2, 5]], kv_lens=[5, 6])
    assert live_slots(rows, NUM_SLOTS).tolist() == [8, 9, 10, 11, 12, 20, 21]


def test_sequences_keep_every_row_apart() -> None:
    rows = rows_of(
        page_tables=[[2, 3], [], [4]],
        kv_lens=[5, 0, 1],
        tokens=[[1, 2, 3, 4, 5, 6], [], [7]],
        request_ids=["a", "b", "c"],
        extra_keys=["lora", None, None],
    )
    sequences = flat_sequences(rows, PoolKey(rank=3))
    assert sequences.key.rank == 3
    assert list(sequences.request_ids) == ["a", "b", "c"]
    assert sequences.tokens_of(0).tolist() == [1, 2, 3, 4, 5, 6]
    assert sequences.slots_of(0).tolist() == [8, 9, 10, 11, 12]
    assert sequences.slots_of(1).tolist() == []
    assert sequences.tokens_of(2).tolist() == [7]
    assert sequences.kv_lens.tolist() == [5, 0, 1]
    assert list(sequences.extra_keys) == ["lora", None, None]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "page_tables, slots"),
        ({"page_tables": [[1]], "slots": [[1]], "kv_lens": [1]}, "page_tables, slots"),
        ({"page_tables": [[1]]}, "kv_lens"),
        ({"slots": [[1.5]]}, r"slots\[0\]"),
        ({"slots": [[1, 2.0]]}, r"slots\[0\]"),
        ({"slots": [torch.tensor([1.0])]}, r"slots\[0\]"),
        ({"slots": [torch.tensor([1], dtype=torch.bfloat16)]}, r"slots\[0\]"),
        ({"slots": [torch.tensor([1]).to_sparse()]}, r"slots\[0\]"),
        ({"slots": [torch.empty(1, dtype=torch.int64, device="meta")]}, r"slots\[0\]"),
        ({"slots": [[1 << 70, "a"]]}, r"slots\[0\]"),
        ({"slots": [[1 << 70, True]]}, r"slots\[0\]"),
        ({"slots": [[True]]}, r"slots\[0\]"),
        ({"slots": [[[1], [2]]]}, r"slots\[0\]"),
        ({"slots": [[1]], "tokens": [[1], [2]]}, "tokens"),
        ({"slots": [[1]], "tokens": [["a"]]}, r"tokens\[0\]"),
        ({"slots": [[1]], "kv_lens": [1, 1]}, "kv_lens"),
        ({"slots": [[1]], "kv_lens": [-1]}, r"kv_lens\[0\]"),
        ({"slots": [[1]], "kv_lens": [0.5]}, "kv_lens"),
        ({"slots": [[1]], "kv_lens": torch.ones(1, dtype=torch.bfloat16)}, "kv_lens"),
        ({"slots": [[1]], "kv_lens": [None]}, "kv_lens"),
        ({"slots": [[1]], "kv_lens": 1}, "kv_lens"),
        ({"slots": {"a": [1]}}, "slots"),
        ({"slots": iter([[1]])}, "slots"),
        ({"slots": [[[1], [2, 3]]]}, r"slots\[0\]"),
        ({"slots": [[1]], "tokens": [[-2]]}, r"tokens\[0\]"),
        ({"slots": [[1]], "tokens": [[1 << 63]]}, r"tokens\[0\]"),
        ({"slots": [[1]], "request_ids": {"a"}}, "request_ids"),
        ({"slots": [[1]], "request_ids": ["\ud800"]}, r"request_ids\[0\]"),
        ({"slots": [[1]], "request_ids": []}, "request_ids"),
        ({"slots": [[1]], "extra_keys": ["a", "b"]}, "extra_keys"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(arguments: dict, named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{named}: ") as refused:
        rows_of(**arguments)
    assert refused.value.hint
