"""Where the content of misplaced records belongs."""

from __future__ import annotations

import numpy as np

from kvaudit.diagnosis.content_homes import ContentHomes
from kvaudit.diagnosis.failures import Failures
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.worlds import World, build, fixture_f


def _homes(world: World, *, tokens: bool = False) -> ContentHomes:
    (view,) = Failures(failing(world, tokens=tokens)).views
    return view.homes


def test_records_that_changed_places_are_each_at_the_others_home() -> None:
    world = fixture_f()
    corruptions.swap_pages(world, 1, 2)
    assert _homes(world).by_row == {2: 4, 3: 5, 4: 2, 5: 3}


def test_what_is_chained_to_a_misplaced_record_is_misplaced_though_it_did_not_fail() -> None:
    world = fixture_f()
    corruptions.copy_slots(world, [8, 9], [4, 5])
    homes = _homes(world)
    assert homes.suspects.tolist() == [4]
    assert homes.by_row == {4: 8, 5: 9}


def test_an_equal_record_that_is_claimed_is_a_home_before_one_that_is_not() -> None:
    world = fixture_f(num_slots=32)
    corruptions.copy_slots(world, [7], [1])
    corruptions.copy_slots(world, [7], [20])
    corruptions.copy_slots(world, [7], [3])
    assert _homes(world, tokens=True).by_row == {3: 7}
    world.requests.pop()
    assert set(_homes(world, tokens=True).by_row.values()) <= {1, 7, 20}


def test_a_head_goes_to_its_own_sequence_if_that_lost_its_head() -> None:
    world = fixture_f()
    corruptions.copy_slots(world, [6, 8], [8, 6])
    assert _homes(world).by_row[8] == 6


def test_the_record_behind_a_lost_one_is_solved_for_the_lost_token() -> None:
    world = fixture_f()
    corruptions.shift_slots(world, "B", first=2, by=-1)
    assert _homes(world).by_row[7] == 8
    world = fixture_f()
    corruptions.shift_slots(world, "B", first=1, by=-1)
    assert _homes(world).by_row[6] == 7


def test_rows_behind_a_misplaced_one_that_belong_nowhere_are_adrift() -> None:
    world = (
        build()
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("B", tokens=[21, 22, 23, 24], slots=[6, 7, 8, 9])
        .done()
    )
    corruptions.copy_slots(world, [8, 9], [4, 5])
    world.request_of("B").slots.pop()
    world.request_of("B").kv_len = 3
    homes = _homes(world)
    assert homes.by_row == {4: 8}
    assert homes.adrift == {5: 4}


def test_a_row_that_fits_one_of_its_claims_is_where_it_belongs() -> None:
    """CASES.md T01."""
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    homes = _homes(builder.request("B", tokens=[21, 22, 23], slots=[6, 7, 4]).done(), tokens=True)
    assert (homes.by_row, homes.fitting.tolist()) == ({}, [4])


def test_a_record_of_no_sequence_has_no_home() -> None:
    world = fixture_f()
    corruptions.overwrite_slot(world, 7, token=99, position=1, prev_hash=12345)
    homes = _homes(world)
    assert (homes.by_row, homes.failed_rows.tolist()) == ({}, [7, 8])


def test_a_zero_record_is_no_suspect() -> None:
    world = fixture_f()
    corruptions.zero_slots(world, [7])
    homes = _homes(world)
    assert np.isin(7, homes.failed_rows)
    assert not np.isin(7, homes.suspects)
