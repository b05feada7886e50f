"""A sequence as a recorder follows it."""

from __future__ import annotations

import numpy as np

from kvaudit.capture.tracked_sequence import TrackedSequence
from kvaudit.core.sequences import SequenceState
from tests.helpers.pool_rows import row


def _tracked() -> TrackedSequence:
    tracked = TrackedSequence(request_id="a")
    tracked.run(row("a", range(1, 4), [5, 6, 7], prompt_len=2))
    return tracked


def test_a_sequence_begins_with_nothing() -> None:
    tracked = TrackedSequence(request_id="a")
    assert (tracked.kv_len, len(tracked.tokens), tracked.prompt_len) == (0, 0, -1)


def test_what_a_forward_wrote_of_it_is_in_its_row() -> None:
    dumped = _tracked().row()
    assert (dumped.request_id, dumped.slots.tolist()) == ("a", [5, 6, 7])
    assert (dumped.start_position, dumped.kv_len, dumped.prompt_len) == (1, 4, 2)
    assert dumped.tokens.tolist() == [-1, 10, 20, 30]
    assert dumped.state is SequenceState.RUNNING


def test_what_lies_before_the_first_slot_that_it_lost_stays_cached() -> None:
    tracked = _tracked()
    tracked.keep_before(np.array([False, True, False]))
    assert (tracked.slots.tolist(), tracked.kv_len) == ([5], 2)
    assert tracked.state is SequenceState.CACHED
