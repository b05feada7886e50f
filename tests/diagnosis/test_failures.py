"""What is open to be explained."""

from __future__ import annotations

import numpy as np

from kvaudit.constants import FailReason
from kvaudit.core.launch_tag import LaunchPhase, phase_of
from kvaudit.diagnosis.failures import Failures
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.worlds import fixture_f

CHAIN, TOKEN = FailReason.VERIFY_CHAIN_HASH_MISMATCH, FailReason.VERIFY_TOKEN_MISMATCH


def _overwritten(**options: object) -> Failures:
    world = fixture_f(**options)
    corruptions.overwrite_slot(world, 7, token=99, position=1, prev_hash=1)
    return Failures(failing(world))


def test_there_is_a_view_of_each_launch_that_failed() -> None:
    views = _overwritten(canary=("k.head", "k.tail")).views
    assert [phase_of(view.tag) for view in views] == [LaunchPhase.HEAD, LaunchPhase.TAIL]
    assert [view.failed.tolist() for view in views] == [[0, 1], [2, 3]]


def test_closing_gives_the_rows_that_were_open() -> None:
    failures = _overwritten()
    assert failures.close(np.array([0, 1]), TOKEN).tolist() == [0]
    assert failures.close(np.array([0, 1]), TOKEN).tolist() == []
    assert failures.open_reasons.tolist() == [int(CHAIN), int(CHAIN)]


def test_a_chain_check_behind_a_bad_row_folds_into_it() -> None:
    failures = _overwritten()
    assert failures.fold(np.array([7])).tolist() == [1]
    assert failures.open_reasons.tolist() == [int(CHAIN | TOKEN), 0]
    assert failures.fold(np.array([7])).tolist() == []


def test_the_evidence_is_left_as_it_was() -> None:
    failures = _overwritten()
    failures.fold(np.array([7]))
    assert failures.evidence.failed.reasons.tolist() == [int(CHAIN | TOKEN), int(CHAIN)]


def test_column_differences_are_closed_column_by_column() -> None:
    world = fixture_f(stamps=("kv.k.0", "kv.v.1"))
    corruptions.overwrite_bytes(world, 7)
    corruptions.overwrite_bytes(world, 4)
    failures = Failures(failing(world))
    failures.close_columns("kv.k.0", np.array([4]))
    failures.close_columns("kv.k.1", np.array([4]))
    open_columns = {name: rows.tolist() for name, rows in failures.open_columns.items()}
    assert open_columns == {"kv.k.0": [7], "kv.v.1": [4, 7]}
