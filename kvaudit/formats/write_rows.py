"""The write halves of a plan's rows: lengths checked, values left to the launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.plan import PlannedWrite, WritePlan
from kvaudit.formats.plan_reader import refuse_uneven, refuse_unnamed, whole_parts
from kvaudit.formats.rows import IntegerLists, RowLists, Rows
from kvaudit.formats.schema import EXPECTED_LISTS, WRITE_COLUMNS, WRITE_LISTS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WriteHalves:
    """The write halves of a batch of rows.

    Fields:
        is_given: the rows that have one, shape [num_rows], bool.
        lists: its list columns.
        capacities: seeds of each row, shape [num_rows], int64; 0 without a half.
        num_valid_reqs: requests of each row, as dumped.
        asserts_input: whether each row's input assert was on.
        asserts_chain: 0 where a row's chain assert was off.
        request_ids: names of each row's requests; None where it does not say.
    """

    is_given: NDArray[np.bool_]
    lists: RowLists
    capacities: NDArray[np.int64]
    num_valid_reqs: list[int]
    asserts_input: list[bool]
    asserts_chain: list[int]
    request_ids: Sequence[list[str] | None]

    @classmethod
    def of(cls, rows: Rows) -> WriteHalves:
        """The columns of the write half, checked.

        Raises:
            ValuesInvalid: a half is null in part, or its lists do not fit each other.
            LimitExceeded: too much text.
        """
        is_given = whole_parts(rows, WRITE_COLUMNS)
        names = ("write_offsets", "write_seed_slot_indices", *WRITE_LISTS, *EXPECTED_LISTS)
        lists = {name: rows.integer_lists(name) for name in names}
        refuse_uneven(
            rows,
            {name: lists[name] for name in WRITE_LISTS},
            hint="write input_ids, positions and out_cache_loc of every entry",
        )
        capacities = np.diff(lists["write_seed_slot_indices"].offsets)
        _refuse_offsets(rows, lists["write_offsets"], np.where(is_given, capacities + 1, 0))
        asserts_input = _given_flags(rows, is_given)
        _refuse_expected(rows, lists, asserts_input)
        num_valid_reqs = _given_integers(rows, "write_num_valid_reqs", is_given)
        request_ids = rows.text_lists("write_request_ids")
        active = np.clip(num_valid_reqs, 0, capacities)
        refuse_unnamed(rows, "write_request_ids", request_ids, num_named=active.tolist())
        return cls(
            is_given=is_given,
            lists=RowLists(lists),
            capacities=capacities,
            num_valid_reqs=num_valid_reqs.tolist(),
            asserts_input=asserts_input.tolist(),
            asserts_chain=_given_integers(rows, "enable_chain_position_assert", is_given).tolist(),
            request_ids=request_ids,
        )

    def of_row(self, row: int) -> PlannedWrite | None:
        """The write half of a row; None where it is null."""
        if not self.is_given[row]:
            return None
        lists = self.lists
        is_expected = self.asserts_input[row]
        return PlannedWrite(
            plan=WritePlan(
                write_offsets=lists.row("write_offsets", row),
                write_seed_slot_indices=lists.row("write_seed_slot_indices", row),
                num_valid_reqs=self.num_valid_reqs[row],
            ),
            input_ids=lists.row("input_ids", row),
            positions=lists.row("positions", row),
            out_cache_loc=lists.row("out_cache_loc", row),
            expected_input_tokens=(
                lists.row("expected_input_tokens", row) if is_expected else None
            ),
            expected_input_positions=(
                lists.row("expected_input_positions", row) if is_expected else None
            ),
            enable_chain_position_assert=self.asserts_chain[row] != 0,
            request_ids=self.request_ids[row],
        )


def _refuse_offsets(rows: Rows, offsets: IntegerLists, wanted: NDArray[np.int64]) -> None:
    odd = np.flatnonzero(np.diff(offsets.offsets) != wanted)
    if odd.size:
        raise rows.invalid(
            f"{np.diff(offsets.offsets)[odd[0]]} offsets, not {wanted[odd[0]]}",
            column="write_offsets",
            row=int(odd[0]),
            hint="write one offset more than write_seed_slot_indices",
        )


def _refuse_expected(
    rows: Rows, lists: Mapping[str, IntegerLists], asserts_input: NDArray[np.bool_]
) -> None:
    """The expected pair stands where the input assert was on, as long as input_ids."""
    num_tokens = np.where(asserts_input, np.diff(lists["input_ids"].offsets), 0)
    for name in EXPECTED_LISTS:
        is_odd = np.diff(lists[name].offsets) != num_tokens
        odd = np.flatnonzero(is_odd | (rows.is_given(name) != asserts_input))
        if odd.size:
            raise rows.invalid(
                "it does not fit enable_write_input_assert and input_ids",
                column=name,
                row=int(odd[0]),
                hint="write the expected pair where the assert was on, as long as input_ids",
            )


def _given_integers(rows: Rows, name: str, is_given: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The int32 column where it is given, elsewhere 0; shape [num_rows], int32."""
    if not rows.has(name):
        return np.zeros(rows.num_rows, dtype=np.int32)
    values: NDArray[np.int32] = np.where(is_given, rows.integers(name, np.int32), np.int32(0))
    return values


def _given_flags(rows: Rows, is_given: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """enable_write_input_assert where it is given, elsewhere False; shape [num_rows], bool."""
    if not rows.has("enable_write_input_assert"):
        return np.zeros(rows.num_rows, dtype=np.bool_)
    flags: NDArray[np.bool_] = rows.flags("enable_write_input_assert") & is_given
    return flags
