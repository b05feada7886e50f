"""Who reads a bad slot."""

from __future__ import annotations

import numpy as np

from kvaudit.core.claims import claims_of
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.tainted_requests import tainted_requests
from kvaudit.runner.expectations import expectations_of
from tests.helpers.worlds import Builder, build


def _tainted(builder: Builder, *rows: int) -> list[str]:
    pool = builder.done().dataset().pools[0]
    assert isinstance(pool, AuditedPool)
    sources = expectations_of(pool, ALL_ENTRIES).sources
    return tainted_requests(claims_of(sources, pool.snapshot), np.array(rows, dtype=np.int64))


def _one() -> Builder:
    return build(num_slots=32).request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])


def test_all_that_hold_the_slot_read_it_in_input_order() -> None:
    builder = _one().request("B", tokens=[21, 22], slots=[6, 7])
    builder.request("C", tokens=[11, 12, 33], slots=[2, 3, 8], shared=2)
    assert _tainted(builder, 3) == ["A", "C"]
    assert _tainted(builder, 4) == ["A"]
    assert _tainted(builder, 7, 8) == ["B", "C"]
    assert _tainted(builder, 20) == []


def test_what_begins_behind_the_bad_slot_shares_what_was_computed_from_it() -> None:
    builder = _one().request(
        "W", tokens=[11, 12, 13, 14, 15], slots=[4, 5, 9], start_position=2, shared=2
    )
    assert _tainted(builder, 3) == ["A", "W"]
    assert _tainted(builder, 4) == ["A", "W"]
    assert _tainted(builder, 9) == ["W"]


def test_taint_goes_on_from_one_that_begins_in_the_middle_to_the_next() -> None:
    tokens = [11, 12, 13, 14, 15, 16]
    builder = _one().request("W", tokens=tokens[:5], slots=[4, 5, 9], start_position=2, shared=2)
    builder.request("X", tokens=tokens, slots=[9, 10], start_position=4, shared=1)
    assert _tainted(builder, 3) == ["A", "W", "X"]


def test_what_shares_only_the_slots_before_the_bad_one_is_untouched() -> None:
    builder = _one().request("C", tokens=[11, 12, 33], slots=[2, 3, 8], shared=2)
    assert _tainted(builder, 5) == ["A"]
