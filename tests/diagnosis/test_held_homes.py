from __future__ import annotations

import numpy as np

from kvaudit.diagnosis.held_homes import NO_HOME, HeldHomes
from tests.helpers.identity_findings import homes_of
from tests.helpers.layer0_worlds import Layer0World, TokenModel, chatty_world, fixture_f


def slots_of(held: HeldHomes) -> list[list[int]]:
    return [held.wrong.rows[run].tolist() for run in held.runs]


def home_slots(held: HeldHomes) -> dict[int, int]:
    """Where the content of each wrong slot belongs; -1 = nowhere."""
    homes = np.where(held.homes == NO_HOME, 0, held.homes)
    slots = np.where(held.homes == NO_HOME, -1, held.claims.rows[homes])
    return dict(zip(held.wrong.rows.tolist(), slots.tolist(), strict=True))


def test_a_clean_pool_has_no_run() -> None:
    held = homes_of(fixture_f())
    assert (held.runs, held.homes.tolist()) == ([], [])


def test_runs_follow_a_sequence_and_not_its_slots() -> None:
    world = Layer0World(model=TokenModel(), num_slots=16, page_size=2)
    world.request("A", [11, 12, 13, 14, 15, 16], [8, 3, 12, 5, 2, 9])
    world.write([3, 12, 9], [301, 302, 303], [1, 2, 5])
    assert slots_of(homes_of(world)) == [[3, 12], [9]]


def test_a_sound_row_ends_a_run_and_one_that_was_not_judged_does_not() -> None:
    world = chatty_world()
    one, other = world.requests[0], world.requests[1]
    world.copy(other.slots[32:48], one.slots[32:48])
    held = homes_of(world, layer0="auto")
    judged = [row for run in slots_of(held) for row in run]
    sound = [row for row in one.slots[32:48] if held.identity.sound[row]]
    assert 8 <= len(judged) < 16 - len(sound)
    assert len(held.runs) == 1 + len(sound)


def test_a_row_behind_one_that_is_right_by_chance_has_the_home_of_its_neighbours() -> None:
    world = Layer0World(model=TokenModel(), num_slots=32, page_size=8)
    world.request("A", [11, 12, 13, 14, 15, 16], range(8, 14))
    world.request("B", [21, 22, 23, 24, 15, 22], range(16, 22))
    world.copy(range(16, 22), range(8, 14))
    table = world.model.table(rope=None)
    assert home_slots(homes_of(world, layer0=table)) == {8: 16, 9: 17, 10: 18, 11: 19, 13: 21}


def test_the_content_of_another_request_is_found_where_it_belongs() -> None:
    world = fixture_f()
    world.copy([6, 7, 8, 9], [2, 3, 4, 5])
    assert home_slots(homes_of(world)) == {2: 6, 3: 7, 4: 8, 5: 9}


def test_a_run_of_two_places_has_both() -> None:
    world = fixture_f().request("C", [31, 32, 33, 34], [10, 11, 12, 13])
    world.copy([12, 13, 6, 7], [2, 3, 4, 5])
    assert home_slots(homes_of(world)) == {2: 12, 3: 13, 4: 6, 5: 7}


def test_tokens_that_no_sequence_has_have_no_home() -> None:
    world = fixture_f()
    world.write([3, 4], [301, 302], [1, 2])
    assert home_slots(homes_of(world)) == {3: -1, 4: -1}


def test_k_tells_which_of_two_equal_texts_it_is() -> None:
    world = Layer0World(model=TokenModel(), num_slots=32, page_size=2)
    world.request("A", [11, 12, 13, 14], [2, 3, 4, 5])
    world.request("B", [50, 51, 21, 22, 21, 22], [6, 7, 8, 9, 10, 11])
    world.copy([10, 11], [4, 5])
    assert home_slots(homes_of(world)) == {4: 10, 5: 11}


def test_one_common_token_among_others_is_no_home() -> None:
    world = fixture_f()
    world.write([3, 4, 5], [301, 302, 23], [1, 2, 3])
    table = world.model.table(rope=None)
    assert home_slots(homes_of(world, layer0=table)) == {3: -1, 4: -1, 5: -1}


def test_a_single_row_of_a_token_that_is_only_there_is_sure() -> None:
    world = fixture_f()
    world.copy([8], [3])
    assert home_slots(homes_of(world, layer0=world.model.table(rope=None))) == {3: 8}
