from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.held_groups import Cause, held_groups
from tests.helpers.identity_findings import homes_of
from tests.helpers.layer0_worlds import Layer0World, TokenModel, chatty_world, fixture_f


def causes(world: Layer0World, **options: object) -> dict[str, list[int]]:
    """The wrong slots of each cause, in sequence order."""
    held = homes_of(world, **options)
    found: dict[str, list[int]] = {}
    for group in held_groups(held):
        found.setdefault(str(group.cause), []).extend(held.wrong.rows[group.members].tolist())
    return found


def test_pages_that_changed_places() -> None:
    world = fixture_f()
    world.copy([2, 3, 4, 5], [4, 5, 2, 3])
    assert causes(world) == {Cause.PAGES: [2, 3, 4, 5]}


def test_three_pages_of_two_requests_that_went_round_are_one_group() -> None:
    world = fixture_f()
    world.copy([2, 3, 6, 7, 8, 9], [6, 7, 8, 9, 2, 3])
    held = homes_of(world)
    [group] = held_groups(held)
    assert group.cause is Cause.PAGES
    assert held.wrong.rows[group.members].tolist() == [2, 3, 6, 7, 8, 9]


def test_a_page_that_was_copied_over_another_went_nowhere() -> None:
    world = fixture_f()
    world.copy([2, 3], [4, 5])
    assert causes(world) == {Cause.SHIFT: [4, 5]}


def test_rows_one_slot_on_are_a_slot_shift() -> None:
    world = fixture_f()
    world.copy([6, 7, 8], [7, 8, 9])
    assert causes(world) == {Cause.SHIFT: [7, 8, 9]}


def test_another_live_request_s_content_is_foreign() -> None:
    world = fixture_f()
    world.copy([6, 7, 8], [2, 3, 4])
    assert causes(world) == {Cause.FOREIGN: [2, 3, 4]}


def test_content_of_a_finished_request_elsewhere_is_a_late_writer_s() -> None:
    world = fixture_f()
    world.request("old", [41, 42, 43], [10, 11, 12], state=SequenceState.FINISHED)
    world.copy([10, 11], [4, 5])
    assert causes(world) == {Cause.LATE: [4, 5]}


def test_content_of_a_finished_request_that_had_these_slots_is_stale() -> None:
    world = fixture_f()
    world.request("old", [41, 42, 43, 44], [2, 3, 4, 5], state=SequenceState.FINISHED)
    assert causes(world) == {Cause.STALE: [2, 3, 4, 5]}


def test_whole_pages_of_a_text_that_no_sequence_has_are_stale_and_parts_are_late() -> None:
    world = fixture_f()
    world.write([2, 3], [301, 302], [0, 1])
    assert causes(world) == {Cause.STALE: [2, 3]}
    world = fixture_f()
    world.write([3], [302], [9])
    assert causes(world) == {Cause.LATE: [3]}


def test_another_token_at_the_right_position_is_a_wrong_token() -> None:
    world = fixture_f()
    world.write([7], [99], [1])
    assert causes(world) == {Cause.TOKEN: [7]}


def test_a_row_between_that_nothing_places_counts_with_its_neighbours() -> None:
    world = fixture_f()
    world.copy([6, 7, 8, 9], [2, 3, 4, 5])
    world.v[4] = world.model.stored(np.random.default_rng(1).standard_normal((1, 32)))[0]
    assert causes(world) == {Cause.FOREIGN: [2, 3, 4, 5]}


@pytest.mark.parametrize(("byte", "cause"), [(0, Cause.ZEROS), (0xFF, Cause.NOT_FINITE)])
def test_rows_of_no_token_say_what_they_are(byte: int, cause: Cause) -> None:
    world = fixture_f()
    world.v[[3, 4]] = byte
    assert causes(world) == {cause: [3, 4]}


def test_two_faults_are_two_groups() -> None:
    world = fixture_f().request("C", [31, 32, 33, 34], [10, 11, 12, 13])
    world.copy([2, 3, 4, 5, 6, 7], [4, 5, 2, 3, 12, 13])
    assert causes(world) == {Cause.PAGES: [2, 3, 4, 5], Cause.FOREIGN: [12, 13]}


def test_a_storm_is_a_thousand_groups_and_one_for_the_rest() -> None:
    world = Layer0World(model=TokenModel(vocab=600), num_slots=5200, page_size=4)
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, 500, 5000).tolist()
    world.request("A", tokens, range(4, 5004))
    every_other = list(range(5, 5004, 4))
    unknown = rng.integers(500, 600, len(every_other)).tolist()
    world.write(every_other, unknown, [slot - 4 for slot in every_other])
    held = homes_of(world)
    groups = held_groups(held)
    assert len(held.wrong) == len(every_other) == 1250
    assert len(groups) == 1001
    assert sum(len(group.members) for group in groups) == 1250


def test_by_repetition_a_copied_page_is_one_group() -> None:
    world = chatty_world()
    one, other = world.requests[0], world.requests[1]
    world.copy(other.slots[32:48], one.slots[32:48])
    assert set(causes(world, layer0="auto")) == {Cause.FOREIGN}
