from __future__ import annotations

import numpy as np

from kvaudit.core.sequences import SequenceState
from tests.helpers.layer0_judging import rows_of
from tests.helpers.layer0_worlds import Layer0World, TokenModel, fixture_f


def test_every_claimed_row_has_its_token_and_its_position() -> None:
    rows = rows_of(fixture_f())
    assert rows.rows.tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
    assert rows.tokens.tolist() == [11, 12, 13, 14, 21, 22, 23, 24]
    assert rows.positions.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert len(set(rows.sequences.tolist())) == len(set(rows.regions.tolist())) == 2
    assert not rows.is_disputed.any()


def test_a_shared_slot_is_one_row() -> None:
    world = fixture_f().request("C", [11, 12, 77], [2, 3, 10])
    rows = rows_of(world)
    assert rows.rows.tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert not rows.is_disputed.any()


def test_rows_of_one_prompt_have_one_history() -> None:
    world = fixture_f().request("C", [11, 12, 13, 99], [10, 11, 12, 13])
    histories = rows_of(world).histories
    assert histories[:3].tolist() == histories[8:11].tolist()
    assert histories[3] != histories[11]


def test_a_row_that_two_live_sequences_want_for_different_tokens_is_disputed() -> None:
    rows = rows_of(fixture_f().request("C", [77, 12], [2, 10]))
    assert rows.rows[rows.is_disputed].tolist() == [2]


def test_a_row_at_two_positions_has_none() -> None:
    rows = rows_of(fixture_f().request("C", [12], [3]))
    assert rows.positions[rows.rows == 3].tolist() == [-1]
    assert not rows.is_disputed.any()


def test_a_finished_sequence_claims_what_no_live_one_does() -> None:
    world = fixture_f()
    world.request("old", [55, 56], [2, 11], state=SequenceState.FINISHED)
    rows = rows_of(world)
    assert rows.tokens[rows.rows == 2].tolist() == [11]
    assert rows.tokens[rows.rows == 11].tolist() == [56]
    assert not rows.is_disputed.any()


def test_unknown_tokens_and_reserved_slots_are_left_out() -> None:
    world = Layer0World(model=TokenModel(), num_slots=8, page_size=2)
    world.request("A", [11, 12, 13], [0, 2, 3])
    world.requests[0].tokens[1] = -1
    assert rows_of(world).rows.tolist() == [3]


def test_extra_keys_are_numbered_and_none_is_0() -> None:
    world = fixture_f()
    world.request("lora", [1], [10], extra_key="adapter")
    world.request("plain", [1], [11], extra_key="")
    rows = rows_of(world)
    adapter, plain = rows.keys[rows.rows >= 10].tolist()
    assert adapter > plain == 0


def test_some_rows_keep_all_of_their_fields() -> None:
    rows = rows_of(fixture_f())
    some = rows.only(np.array([3, 0]))
    assert (some.rows.tolist(), some.tokens.tolist()) == ([5, 2], [14, 11])
    assert len(rows.only(rows.tokens > 20)) == 4


def test_a_region_is_a_page_or_sixteen_positions_of_a_sequence() -> None:
    for page_size, num_regions in ((1, 6), (16, 6), (32, 4)):
        world = Layer0World(model=TokenModel(), num_slots=160, page_size=page_size)
        world.request("A", list(range(10, 50)), range(32, 72))
        world.request("B", list(range(10, 50)), range(96, 136))
        rows = rows_of(world)
        assert len(set(rows.regions.tolist())) == num_regions
        assert (np.diff(rows.regions[:40]) >= 0).all()
