"""Failed rows as columns."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from kvaudit.core.failed_rows import NONE_FAILED, FailedRows


def _rows(count: int, tag: int) -> FailedRows:
    columns = {
        column.name: np.full(
            (count, *getattr(NONE_FAILED, column.name).shape[1:]),
            tag,
            dtype=getattr(NONE_FAILED, column.name).dtype,
        )
        for column in fields(FailedRows)
    }
    return FailedRows(**columns)


def test_launches_are_joined_in_the_order_given() -> None:
    joined = FailedRows.joined([_rows(2, 5), _rows(1, 3)])
    assert len(joined) == 3
    assert joined.tags.tolist() == [5, 5, 3]
    assert joined.records.shape == (3, 4)


def test_nothing_failed_is_empty_and_keeps_its_types() -> None:
    assert FailedRows.joined([]) is NONE_FAILED
    assert not NONE_FAILED
    assert replace(NONE_FAILED).records.dtype == np.uint64
