"""KV207: a constant offset on all rows that the dump does not declare."""

from __future__ import annotations

import pytest

from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.long_pools import PAGE_SIZES, long_pool
from tests.helpers.worlds import World, build


def _draft(page_size: int = 16, *, offset: int = 1, **options: object) -> World:
    """A draft model's pool: each position carries the token that it predicts from."""
    world = long_pool(page_size, **options)
    for request in world.requests:
        corruptions.stamp_other_tokens(world, request.request_id, offset=offset)
    return world


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("offset", [1, 2, 5])
def test_tokens_that_are_all_so_many_positions_on_are_one_finding(
    page_size: int, offset: int
) -> None:
    world = _draft(page_size, offset=offset, num_pages=4 if page_size > 1 else 30)
    finding = finding_of(world)
    assert (finding.rule, finding.request_ids) == ("KV207", ["R0", "R1", "R2"])
    assert finding.evidence["token_offset"] == offset
    assert finding.evidence["rows"] == sum(len(request.slots) for request in world.requests)
    assert f"fits token offset {offset} on all rows" in finding.summary
    assert "declare it or fix it" in finding.summary


def test_the_guards_draft_pool_is_one_finding_and_clean_when_declared() -> None:
    """CASES.md G2 and G3."""
    world = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5]).done()
    corruptions.retoken(world, "A", position=0, token=11 + 100)
    world.request_of("A").tokens[0] = 11
    for slot, token in zip([2, 3, 4, 5], [12, 13, 14, 15], strict=True):
        world.records["k.tail"][slot, corruptions.TOKEN] = token
    corruptions.rechain(world, "A")
    finding = finding_of(world)
    assert (finding.rule, finding.slots) == ("KV207", [2, 3, 4, 5])
    declared = world.dataset(snapshot=world.snapshot(token_offset=1))
    assert not findings_of(declared)


@pytest.mark.parametrize("delta", [1, 16, 4096])
@pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])
def test_positions_that_are_all_off_by_a_constant_are_one_finding(delta: int, tokens: bool) -> None:
    world = long_pool(16)
    for request in world.requests:
        corruptions.shift_positions(world, request.request_id, first=0, delta=delta)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.evidence["position_offset"]) == ("KV207", delta)
    assert finding.alternatives == ["KV204"]
    assert not findings_of(world.dataset(snapshot=world.snapshot(position_offset=delta)))


def test_k_and_v_are_one_finding() -> None:
    finding = finding_of(_draft(canary=("k.tail", "v.tail")))
    assert finding.evidence["launches"] == ["TAIL_K_FULL", "TAIL_V_FULL"]


def test_another_fault_beside_the_offset_is_a_finding_of_its_own() -> None:
    world = _draft()
    slot = world.request_of("R1").slots[33]
    corruptions.flip_record_bit(world, slot, corruptions.PREV_HASH, bit=40)
    found = {finding.rule: finding.slots for finding in findings_of(world)}
    assert set(found) == {"KV207", "KV208"}
    assert found["KV208"] == [slot]


def test_an_offset_of_one_request_among_several_is_not_the_pools() -> None:
    world = long_pool(16)
    corruptions.stamp_other_tokens(world, "R1", offset=1)
    corruptions.shift_positions(world, "R2", first=0, delta=1)
    assert not report_of(world, select=("KV207",)).findings
