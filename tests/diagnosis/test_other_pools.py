"""The rules on records in window pools, draft pools, sparse dumps and pools without expectations."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.snapshot import PoolKey
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.long_pools import long_pool, page_of
from tests.helpers.worlds import World, link

WINDOW = 40
TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])


def _late(world: World, position: int) -> int:
    slot = world.request_of("R1").slots[position]
    corruptions.overwrite_slot(
        world, slot, token=77, position=position, prev_hash=link(5, 6, position)
    )
    return slot


def _in_window(world: World, *, tokens: bool) -> Finding:
    snapshot = world.snapshot(window=WINDOW, key=PoolKey(pool_kind=PoolKind.SWA))
    return finding_of(world.dataset(tokens=tokens, snapshot=snapshot))


@TOKENS
def test_a_late_writer_in_a_window_pool_is_named(tokens: bool) -> None:
    world = long_pool(16)
    slot = _late(world, len(world.request_of("R1").slots) - 10)
    finding = _in_window(world, tokens=tokens)
    assert (finding.rule, finding.slots) == ("KV203", [slot])
    assert finding.evidence["launches"] == ["TAIL_K_SWA"]


@TOKENS
def test_pages_in_a_window_that_changed_places_are_named(tokens: bool) -> None:
    world = long_pool(16)
    corruptions.swap_pages(world, page_of(world, "R1", 2), page_of(world, "R1", 3))
    finding = _in_window(world, tokens=tokens)
    assert (finding.rule, finding.request_ids) == ("KV205", ["R1"])


def test_what_lies_before_the_window_is_nobodys() -> None:
    world = long_pool(16)
    _late(world, 3)
    snapshot = world.snapshot(window=WINDOW, key=PoolKey(pool_kind=PoolKind.SWA))
    assert not findings_of(world.dataset(snapshot=snapshot))


@pytest.mark.parametrize("fault", ["flip", "late", "pages", "token"])
def test_a_draft_pool_with_its_offset_declared_is_as_any_other(fault: str) -> None:
    world = long_pool(16)
    for request in world.requests:
        corruptions.stamp_other_tokens(world, request.request_id, offset=1)
    slot = world.request_of("R1").slots[20]
    wanted = {"flip": "KV208", "late": "KV203", "pages": "KV205", "token": "KV201"}[fault]
    if fault == "flip":
        corruptions.flip_record_bit(world, slot, corruptions.TOKEN)
    elif fault == "late":
        _late(world, 20)
    elif fault == "pages":
        corruptions.swap_pages(world, page_of(world, "R1", 1), page_of(world, "R1", 2))
    else:
        world.request_of("R1").tokens[21] = 5
    finding = finding_of(world.dataset(snapshot=world.snapshot(token_offset=1)))
    assert finding.rule == wanted
    assert slot in finding.slots


@TOKENS
def test_a_sparse_dump_of_one_requests_slots_is_enough_for_a_late_writer(tokens: bool) -> None:
    world = long_pool(16)
    slot = _late(world, 20)
    snapshot = world.snapshot(slots=world.request_of("R1").slots)
    world.requests = [world.request_of("R1")]
    finding = finding_of(world.dataset(tokens=tokens, snapshot=snapshot))
    assert (finding.rule, finding.slots) == ("KV203", [slot])


def test_a_plan_that_names_no_requests_still_has_rule_and_slot() -> None:
    world = long_pool(16)
    slot = _late(world, 20)
    pool = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(names=False),))
    finding = finding_of(Dataset(pools=[pool]))
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV203", [slot], [])
    assert "of a request without a name was written over" in finding.summary


def test_without_expectations_a_shifted_position_is_named_by_its_slot() -> None:
    world = long_pool(16)
    corruptions.shift_positions(world, "R1", first=20, delta=1)
    report = report_of(Dataset(pools=[AuditedPool(snapshot=world.snapshot())]))
    assert report.violations_total == 1
    (finding,) = [found for found in report.findings if not found.rule.startswith("KV0")]
    assert (finding.rule, finding.slots[0]) == ("KV204", world.request_of("R1").slots[20])


def test_many_requests_of_many_layers_with_several_faults_have_a_finding_each() -> None:
    """Thirty layers, sixty requests, and five faults of five rules."""
    world = long_pool(16, num_pages=3, num_requests=60, num_layers=30)
    corruptions.flip_record_bit(world, world.request_of("R5").slots[9], corruptions.TOKEN)
    corruptions.swap_pages(world, page_of(world, "R10", 0), page_of(world, "R10", 2))
    corruptions.shift_positions(world, "R20", first=20, delta=3)
    foreign, own = world.request_of("R31").slots, world.request_of("R30").slots
    corruptions.copy_slots(world, foreign[20:30], own[20:30])
    _late(world, 11)
    found = {finding.rule: finding for finding in findings_of(world)}
    assert set(found) == {"KV202", "KV203", "KV204", "KV205", "KV208"}
    assert {rule: finding.request_ids for rule, finding in found.items()} == {
        "KV202": ["R30"],
        "KV203": ["R1"],
        "KV204": ["R20"],
        "KV205": ["R10"],
        "KV208": ["R5"],
    }
    assert np.isin(own[20:30], found["KV202"].slots).all()
