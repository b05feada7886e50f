"""KV305: bytes that were sliced with the wrong geometry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.misreadings import exchange_halves, read_packed, read_pages_of, read_with_stride
from tests.helpers.stamped_pools import F_STAMPS, deep_pool
from tests.helpers.worlds import World, fixture_f

JUDGING = [RealKvHashMode.PARTIAL, RealKvHashMode.ALL]


@pytest.mark.parametrize("tokens", [False, True], ids=["real", "token"])
@pytest.mark.parametrize("mode", JUDGING)
def test_t29_is_another_page_size(mode: RealKvHashMode, tokens: bool) -> None:
    world = fixture_f(mode=mode)
    read_pages_of(world, 4)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.request_ids) == ("KV305", ["A", "B"])
    assert finding.slots == [2, 3, 4, 5, 6, 7, 8, 9]
    assert finding.evidence["layout"] == "page_size"
    assert finding.summary == (
        "pages of 4 slots were read as pages of 2: 8 slots hold other slots' bytes"
    )


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize(
    ("misread", "layout"),
    [
        (lambda world: read_pages_of(world, 2 * world.page_size), "page_size"),
        (lambda world: read_with_stride(world, 2), "stride"),
        (lambda world: read_with_stride(world, 1, start=3), "stride"),
        (lambda world: read_packed(world, 1), "packed"),
        (lambda world: read_packed(world, world.page_size), "packed"),
        (exchange_halves, "exchanged"),
    ],
    ids=["pages", "stride", "start", "packed-slots", "packed-pages", "exchanged"],
)
def test_a_misread_pool_of_many_layers_is_one_finding(
    misread: Callable[[World], None], layout: str, page_size: int
) -> None:
    world = deep_pool(page_size, length=64)
    misread(world)
    finding = finding_of(world)
    assert finding.rule == "KV305"
    # With pages of one slot, pages of two are a stride of two.
    assert finding.evidence["layout"] in ({layout} if page_size > 1 else {layout, "page_size"})


def test_digests_tell_as_well_as_bytes() -> None:
    world = fixture_f(stamps=F_STAMPS)
    read_pages_of(world, 4)
    assert finding_of(world.dataset(snapshot=world.snapshot(digests_only=True))).rule == "KV305"


def test_a_flip_beside_a_wrong_layout_is_a_finding_of_its_own() -> None:
    world = deep_pool(16, length=64)
    read_with_stride(world, 2)
    corruptions.overwrite_bytes(world, world.request_of("A").slots[3])
    findings = findings_of(world)
    assert [finding.rule for finding in findings] == ["KV305", "KV301"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda world: corruptions.overwrite_bytes(world, 7),
        lambda world: corruptions.swap_pages(world, 1, 2, records=False),
        lambda world: corruptions.zero_slots(world, [6, 7, 8, 9], records=False),
        lambda world: corruptions.swap_pages(world, 1, 2),
    ],
    ids=["T03", "T08", "T10", "T07"],
)
@pytest.mark.parametrize("options", [{"mode": RealKvHashMode.ALL}, {"stamps": F_STAMPS}])
def test_damage_of_some_slots_is_no_layout(
    damage: corruptions.Corruption, options: dict[str, object]
) -> None:
    world = fixture_f(**options)
    damage(world)
    assert not report_of(world, select=("KV305",)).findings
