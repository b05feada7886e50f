"""Sequences by number."""

from __future__ import annotations

from tests.helpers.worlds import fixture_f


def test_each_sequence_has_its_own_tokens_and_slots() -> None:
    sequences = fixture_f().sequences()
    assert sequences.num_sequences == 2
    assert sequences.tokens_of(1).tolist() == [21, 22, 23, 24]
    assert sequences.slots_of(0).tolist() == [2, 3, 4, 5]
