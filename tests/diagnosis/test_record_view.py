"""The failed rows of a launch beside its records."""

from __future__ import annotations

import numpy as np

from kvaudit.constants import FailReason
from kvaudit.core.claims import NO_ROW
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.record_view import RecordView
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.worlds import World, fixture_f


def _view(world: World) -> tuple[Failures, RecordView]:
    failures = Failures(failing(world))
    (view,) = failures.views
    return failures, view


def _swapped() -> tuple[Failures, RecordView]:
    world = fixture_f()
    corruptions.swap_pages(world, 1, 2)
    return _view(world)


def test_a_view_has_the_failed_rows_and_all_records() -> None:
    _, view = _swapped()
    assert view.buffer == "k.tail"
    assert view.rows.rows[view.failed].tolist() == [2, 3, 4, 5]
    assert view.tokens[2:6].tolist() == [13, 14, 11, 12]
    assert view.positions[6:10].tolist() == [0, 1, 2, 3]


def test_what_is_closed_is_open_no_more() -> None:
    failures, view = _swapped()
    chain, token = FailReason.VERIFY_CHAIN_HASH_MISMATCH, FailReason.VERIFY_TOKEN_MISMATCH
    assert view.with_open(chain).tolist() == [0, 2]
    failures.close(np.array([0]), chain)
    assert view.with_open(chain).tolist() == [2]
    assert view.with_open(token).tolist() == [0, 1, 2, 3]


def test_a_row_failed_by_nothing_else_only_while_all_of_it_is_open() -> None:
    failures, view = _swapped()
    both = FailReason.VERIFY_POSITION_MISMATCH | FailReason.VERIFY_TOKEN_MISMATCH
    assert view.with_only(both).tolist() == [1, 3]
    failures.close(np.array([1]), FailReason.VERIFY_TOKEN_MISMATCH)
    assert view.with_only(both).tolist() == [3]


def test_rows_that_follow_one_another_are_runs() -> None:
    world = fixture_f()
    for request, position in (("A", 0), ("A", 1), ("A", 3), ("B", 0)):
        world.request_of(request).tokens[position] = 99
    _, view = _view(world)
    assert [view.rows.rows[run].tolist() for run in view.runs(view.failed)] == [[2, 3], [5], [6]]
    assert view.runs(view.failed[:0]) == []


def test_a_replaced_row_is_one_whose_successor_was_chained_to_something_else() -> None:
    world = fixture_f()
    corruptions.overwrite_slot(world, 7, token=99, position=1, prev_hash=1)
    _, view = _view(world)
    assert view.replaced_rows.tolist() == [6, 7]


def test_a_hash_is_looked_up_among_the_records_that_may_have_successors() -> None:
    world = fixture_f()
    corruptions.copy_chain(world, "B", "A")
    world.records["k.tail"][0] = world.records["k.tail"][7]
    _, view = _view(world)
    wanted = np.array([view.slot_hashes[7], 0, 5], dtype=np.uint64)
    assert view.rows_with_hash(wanted).tolist() == [3, NO_ROW, NO_ROW]


def test_the_failed_rows_on_a_row_are_those_of_all_that_claim_it() -> None:
    _, view = _swapped()
    assert view.on_rows(np.array([3, 9])).tolist() == [1]
