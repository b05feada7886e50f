"""Pages that changed places whole, told by the homes of their records."""

from __future__ import annotations

import pytest

from kvaudit.diagnosis.content_homes import ContentHomes
from kvaudit.diagnosis.exchanged_pages import exchanged_pages, homes_by_page
from kvaudit.diagnosis.failures import Failures
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.worlds import World, build

TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])


def _homes(world: World, *, tokens: bool) -> ContentHomes:
    (view,) = Failures(failing(world, tokens=tokens)).views
    return view.homes


def _of_one_request() -> World:
    """Four whole pages, and two slots of a fifth."""
    return (
        build(page_size=4, num_slots=32)
        .request("A", tokens=range(11, 29), slots=range(4, 22))
        .done()
    )


@TOKENS
def test_a_row_whose_predecessor_was_written_over_goes_by_its_page(*, tokens: bool) -> None:
    """The last page took the place of the one before it, of which two slots are filled anew."""
    world = _of_one_request()
    corruptions.exchange_table_pages(world, "A", 3, 4, new_tokens=[91, 92])
    homes = _homes(world, tokens=tokens)
    assert homes.by_row == {16: 20, 17: 21}
    assert homes_by_page(homes, world.snapshot()) == {16: 20, 17: 21, 20: 16, 21: 17}


@TOKENS
def test_a_row_that_stands_elsewhere_too_goes_to_the_page_that_lacks_it(*, tokens: bool) -> None:
    world = (
        build(page_size=4, num_slots=64)
        .request("A", tokens=range(11, 29), slots=range(4, 22))
        .request("B", tokens=range(11, 29), slots=range(24, 42))
        .done()
    )
    corruptions.swap_pages(world, 4, 5)
    homes = _homes(world, tokens=tokens)
    assert (homes.by_row[16], homes.by_row[17]) == (40, 41)
    found = homes_by_page(homes, world.snapshot())
    assert found == {16: 20, 17: 21} | {
        20 + offset: 16 + offset for offset in range(4) if offset < 2
    }


def test_each_cycle_of_pages_is_a_set() -> None:
    builder = build(page_size=4, num_slots=64).request(
        "A", tokens=range(11, 43), slots=range(4, 36)
    )
    world = builder.done()
    corruptions.permute_pages(world, [1, 3, 5])
    corruptions.swap_pages(world, 2, 7)
    homes = _homes(world, tokens=True)
    sets = exchanged_pages(homes, homes.by_row, world.snapshot())
    pages = [
        {row // 4 for row, number in sets.items() if number == each} for each in {*sets.values()}
    ]
    assert sorted(map(sorted, pages)) == [[1, 3, 5], [2, 7]]
    assert len(sets) == 20


def test_a_page_with_a_sound_record_or_one_askew_did_not_change_places() -> None:
    world = _of_one_request()
    corruptions.copy_slots(world, [4, 5, 6, 8, 9, 10], [8, 9, 10, 4, 5, 6])
    homes = _homes(world, tokens=True)
    assert not exchanged_pages(homes, homes.by_row, world.snapshot())
    world = _of_one_request()
    corruptions.copy_slots(world, [4, 5, 6, 7, 8, 9, 10, 11], [8, 9, 11, 10, 4, 5, 6, 7])
    homes = _homes(world, tokens=True)
    assert not exchanged_pages(homes, homes.by_row, world.snapshot())


def test_pages_that_went_on_by_one_are_no_exchange() -> None:
    world = _of_one_request()
    corruptions.shift_slots(world, "A", first=0, by=4)
    homes = _homes(world, tokens=True)
    assert homes.by_row[8] == 4
    assert not exchanged_pages(homes, homes.by_row, world.snapshot())
