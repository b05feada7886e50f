"""KV205: the right content on pages in the wrong order."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from kvaudit.constants import NO_STEP, RealKvHashMode
from kvaudit.core.sequences import SequenceState
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.long_pools import PAGE_SIZES, long_pool, page_of, slots_of_pages
from tests.helpers.worlds import World, build, fixture_f

TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])
EVERY_SIZE = pytest.mark.parametrize("page_size", PAGE_SIZES)


@EVERY_SIZE
@TOKENS
@pytest.mark.parametrize("pages", [(0, 1), (1, 3), (0, 3)])
def test_two_pages_of_a_request_that_changed_places_are_named(
    page_size: int, tokens: bool, pages: tuple[int, int]
) -> None:
    world = long_pool(page_size)
    chosen = [page_of(world, "R1", number) for number in pages]
    corruptions.swap_pages(world, *chosen)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.request_ids) == ("KV205", ["R1"])
    assert finding.slots == slots_of_pages(world, chosen)
    assert finding.evidence["num_pages"] == 2
    assert {"page": chosen[0], "holds_content_of_page": chosen[1]} in finding.evidence["pages"]


@EVERY_SIZE
@TOKENS
def test_pages_of_two_requests_that_changed_places_taint_both(page_size: int, tokens: bool) -> None:
    world = long_pool(page_size)
    chosen = [page_of(world, "R0", 2), page_of(world, "R2", 1)]
    corruptions.swap_pages(world, *chosen)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.request_ids) == ("KV205", ["R0", "R2"])
    assert finding.slots == slots_of_pages(world, chosen)


@EVERY_SIZE
@TOKENS
def test_three_pages_that_went_round_are_one_cause(page_size: int, tokens: bool) -> None:
    world = long_pool(page_size)
    chosen = [page_of(world, "R1", number) for number in (0, 1, 3)]
    corruptions.permute_pages(world, chosen)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots) == ("KV205", slots_of_pages(world, chosen))


@pytest.mark.parametrize("page_size", [16, 64])
@TOKENS
def test_a_page_that_is_not_filled_leaves_rubbish_on_the_other(
    page_size: int, tokens: bool
) -> None:
    world = long_pool(page_size)
    chosen = [page_of(world, "R1", 1), page_of(world, "R1", 4)]
    corruptions.swap_pages(world, *chosen)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.request_ids) == ("KV205", ["R1"])
    assert set(slots_of_pages(world, chosen[:1])) <= set(finding.slots)


def test_pages_of_head_and_tail_k_and_v_are_one_cause() -> None:
    world = long_pool(16, canary=("k.head", "k.tail", "v.head", "v.tail"))
    corruptions.swap_pages(world, page_of(world, "R1", 0), page_of(world, "R1", 2))
    assert len(finding_of(world).evidence["launches"]) == 4


def test_two_pairs_of_pages_are_two_causes() -> None:
    world = long_pool(16)
    corruptions.swap_pages(world, page_of(world, "R0", 0), page_of(world, "R0", 2))
    corruptions.swap_pages(world, page_of(world, "R1", 1), page_of(world, "R1", 3))
    findings = findings_of(world)
    assert [finding.rule for finding in findings] == ["KV205", "KV205"]
    assert [finding.request_ids for finding in findings] == [["R0"], ["R1"]]


def test_a_flip_elsewhere_does_not_hide_it() -> None:
    world = long_pool(16)
    corruptions.swap_pages(world, page_of(world, "R0", 0), page_of(world, "R0", 2))
    slot = world.request_of("R2").slots[20]
    corruptions.flip_record_bit(world, slot, corruptions.TOKEN)
    found = {finding.rule: finding.slots for finding in findings_of(world, tokens=False)}
    assert set(found) == {"KV205", "KV208"}
    assert found["KV208"] == [slot]


def test_bytes_that_stayed_behind_are_not_this_rules_rows() -> None:
    """CASES.md T08: the records are right."""
    world = fixture_f(mode=RealKvHashMode.ALL)
    corruptions.swap_pages(world, 1, 2, records=False)
    assert not report_of(world, select=("KV205",)).findings


def test_two_slots_of_a_page_that_changed_places_are_no_permutation_of_pages() -> None:
    world = long_pool(16)
    slots = world.request_of("R1").slots
    corruptions.copy_slots(world, [slots[3], slots[7]], [slots[7], slots[3]])
    assert not report_of(world, select=("KV205",)).findings


def test_a_pool_that_uses_slot_0_is_numbered_as_the_engine_does() -> None:
    world = build(reserved="none").request("A", tokens=range(11, 19), slots=range(8)).done()
    corruptions.swap_pages(world, 0, 2)
    finding = finding_of(world, tokens=False)
    assert (finding.rule, finding.slots) == ("KV205", [0, 1, 4, 5])


def _twins(*, window: int = 0, state: SequenceState | None = None) -> World:
    """Two requests with one prompt, each computed by itself; without the first slots of a window."""
    builder = build(page_size=4, num_slots=64)
    builder.request("A", tokens=range(11, 29), slots=range(4, 22))
    builder.request("B", tokens=range(11, 29), slots=range(24, 42), state=state)
    world = builder.done()
    for request in world.requests:
        request.start_position, request.slots = window, request.slots[window:]
    return world


@TOKENS
@pytest.mark.parametrize("window", [0, 2], ids=["whole", "window"])
@pytest.mark.parametrize("state", [None, SequenceState.FINISHED], ids=["live", "finished"])
@pytest.mark.parametrize(
    "pages", [*combinations(range(1, 5), 2), (2, 5), (4, 5), (1, 7), (2, 10), (5, 8)]
)
def test_content_that_stands_elsewhere_as_well_is_no_home_of_a_page(
    pages: tuple[int, int], state: SequenceState | None, window: int, *, tokens: bool
) -> None:
    world = _twins(window=window, state=state)
    corruptions.swap_pages(world, *pages)
    finding = finding_of(world, tokens=tokens)
    assert finding.rule == "KV205"
    claimed = {slot for request in world.requests for slot in request.slots}
    assert finding.slots == [slot for slot in slots_of_pages(world, list(pages)) if slot in claimed]


@TOKENS
@pytest.mark.parametrize("num_new", [0, 1, 4])
def test_what_a_request_wrote_after_its_pages_changed_places_belongs_to_it(
    num_new: int, *, tokens: bool
) -> None:
    world = build(page_size=8, num_slots=64).request("A", tokens=range(11, 31), slots=range(8, 28))
    world = world.request("B", tokens=range(51, 71), slots=range(32, 52)).done()
    new_tokens = range(31, 31 + num_new)
    corruptions.exchange_table_pages(world, "A", 1, 2, new_tokens=new_tokens)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.request_ids) == ("KV205", ["A"])
    assert set(world.request_of("A").slots[8:]) == set(finding.slots)


def test_the_page_behind_one_whose_end_was_never_stamped_follows_from_it() -> None:
    world = build(page_size=8, num_slots=64).request("A", tokens=range(11, 38), slots=range(8, 35))
    world = world.done()
    corruptions.exchange_table_pages(world, "A", 1, 3)
    stamped_step = np.where(world.records["k.tail"].any(axis=1), 0, NO_STEP)
    world.evidence["stamped_step"] = stamped_step
    finding = finding_of(world)
    assert (finding.rule, finding.request_ids) == ("KV205", ["A"])
    assert set(finding.slots).isdisjoint(world.request_of("A").slots[16:24])
