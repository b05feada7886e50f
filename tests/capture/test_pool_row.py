"""What a row writes, and which tokens it has then."""

from __future__ import annotations

import numpy as np

from kvaudit.constants import NO_SEED
from tests.helpers.pool_rows import row


def test_a_chain_goes_on_from_the_slot_before_it() -> None:
    chain = row("a", range(2, 4), [4, 5, 6, 7]).chain()
    assert chain.seed_slot_idx == 5
    assert chain.slots.tolist() == [6, 7]
    assert chain.positions.tolist() == [2, 3]
    assert chain.tokens.tolist() == [20, 30]


def test_a_chain_starts_at_position_zero() -> None:
    chain = row("a", range(2), [4, 5]).chain()
    assert chain.seed_slot_idx == NO_SEED
    assert chain.slots.tolist() == [4, 5]


def test_positions_that_left_the_window_within_the_step_are_not_written() -> None:
    chain = row("a", range(1, 6), [4, 5]).chain()
    assert chain.positions.tolist() == [4, 5]
    assert chain.tokens.tolist() == [40, 50]
    assert chain.seed_slot_idx == NO_SEED


def test_the_tokens_after_a_row_are_those_that_it_names() -> None:
    named = row("a", range(2, 4), [4, 5, 6, 7], tokens=np.array([1, 2, 3, 4, 5]))
    assert named.tokens_after(np.array([9, 9])).tolist() == [1, 2, 3, 4, 5]


def test_without_names_they_are_those_seen_so_far_and_unknown_in_between() -> None:
    later = row("a", range(4, 6), [4, 5, 6, 7, 8, 9])
    assert later.tokens_after(np.array([1, 2])).tolist() == [1, 2, -1, -1, 40, 50]
    again = row("a", range(1, 3), [4, 5, 6])
    assert again.tokens_after(np.array([1, 2, 3, 4])).tolist() == [1, 10, 20]
