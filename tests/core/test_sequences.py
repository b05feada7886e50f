from __future__ import annotations

from kvaudit.core.sequences import SequenceState
from tests.helpers import dumps
from tests.render.test_file_facts import sequences


def test_each_sequence_has_its_own_tokens_and_slots() -> None:
    both = sequences()
    assert both.num_sequences == 2
    assert both.tokens_of(0).tolist() == [11, 12, 13]
    assert both.tokens_of(1).tolist() == [21, 22]
    assert both.slots_of(0).tolist() == [2, 3]
    assert both.slots_of(1).tolist() == []
    assert dumps.sequences().num_sequences == 1


def test_states_are_the_words_of_the_format() -> None:
    assert list(SequenceState) == ["running", "waiting", "cached", "in_flight", "finished"]
