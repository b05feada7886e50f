"""What the rules on misplaced records share."""

from __future__ import annotations

from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.foreign_content import RULE
from kvaudit.diagnosis.misplaced import content_owner, misplaced_explanation, owner_of
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.worlds import World, build, fixture_f


def _shifted() -> World:
    world = fixture_f()
    corruptions.shift_slots(world, "B", first=1, by=1)
    return world


def test_what_lay_at_the_homes_and_failed_is_of_the_same_cause() -> None:
    """Slot 7 is what the shift left empty."""
    (view,) = Failures(failing(_shifted())).views
    (moved,) = view.moved
    assert moved.rows.tolist() == [8, 9]
    explanation = misplaced_explanation(RULE, view, moved, summary="so", facts={"shift": 1})
    assert explanation.roots.tolist() == [7, 8, 9]
    assert view.rows.rows[explanation.failed].tolist() == [7, 8, 9]
    assert explanation.reasons == RECORD_REASONS
    assert explanation.facts == {
        "shift": 1,
        "examples": [
            {"slot": 8, "holds_content_of_slot": 7},
            {"slot": 9, "holds_content_of_slot": 8},
        ],
    }


def test_a_row_is_its_first_requests_or_nobodys() -> None:
    (view,) = Failures(failing(_shifted())).views
    assert (owner_of(view, 8), owner_of(view, 12)) == ("request B", "nobody")


def test_what_a_sequence_wrote_behind_misplaced_content_is_its_own() -> None:
    world = fixture_f(num_slots=32)
    corruptions.copy_slots(world, [6, 7, 8], [2, 3, 4])
    corruptions.rechain(world, "A")
    (view,) = Failures(failing(world)).views
    (moved,) = view.moved
    assert moved.adrift.tolist() == [5]
    explanation = misplaced_explanation(RULE, view, moved, summary="so", facts={})
    assert explanation.roots.tolist() == [2, 3, 4]


def test_content_is_of_whom_it_fits_among_those_who_claim_its_home() -> None:
    """Slot 6 is in two tables, of which the second is what slot 2 holds."""
    builder = build(num_slots=32).request("B", tokens=[21, 22, 23, 24], slots=[6, 7, 8, 9])
    builder.request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    world = builder.request("T", tokens=[31, 32], slots=[12, 13]).done()
    corruptions.copy_slots(world, [12, 13], [2, 3])
    world.request_of("T").slots = [6, 7]
    (view,) = Failures(failing(world)).views
    (moved,) = (group for group in view.moved if group.rows[0] == 2)
    assert moved.homes.tolist() == [6, 7]
    assert (owner_of(view, 6), content_owner(view, moved)) == ("request B", "request T")
