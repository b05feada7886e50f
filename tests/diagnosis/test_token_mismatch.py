"""KV201: the right position holds another token."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.worlds import World, build, fixture_f


def _wrong(*positions: int, token: int = 99, **options: object) -> World:
    world = fixture_f(**options)
    for position in positions:
        world.request_of("B").tokens[position] += token
    return world


@pytest.mark.parametrize("mode", RealKvHashMode)
def test_a_token_that_was_stamped_and_chained_wrong_is_named(mode: RealKvHashMode) -> None:
    """CASES.md T23."""
    world = fixture_f(mode=mode)
    corruptions.wrong_token(world, "B", position=1, token=99)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV201", [7], ["B"])
    assert finding.evidence["examples"] == [{"slot": 7, "token": 99, "expected_token": 22}]
    assert finding.summary == (
        "slot 7 (page 3 +1) was written for token 99 where its sequence has 22 at position 1"
    )
    assert not finding.alternatives
    assert not findings_of(world, tokens=False)


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_positions_in_a_row_are_one_cause_and_apart_are_two(page_size: int) -> None:
    length = 3 * page_size + 40
    builder = build(num_slots=2 * page_size + length, page_size=page_size, num_layers=1)
    tokens, slots = list(range(1000, 1000 + length)), range(page_size, page_size + length)
    world = builder.request("A", tokens=tokens, slots=slots).done()
    for position in (5, 20, 21, 22):
        world.request_of("A").tokens[position] += 7
    findings = findings_of(world)
    assert [(found.rule, found.slots) for found in findings] == [
        ("KV201", [page_size + position for position in (20, 21, 22)]),
        ("KV201", [page_size + 5]),
    ]
    assert [found.alternatives for found in findings] == [["KV202"], []]


def test_head_and_tail_k_and_v_of_one_token_are_one_finding() -> None:
    finding = finding_of(_wrong(1, canary=("k.head", "k.tail", "v.head", "v.tail")))
    assert (finding.slots, finding.evidence["rows"]) == ([7], 4)


@pytest.mark.parametrize(("added", "alternatives"), [(1, ["KV208"]), (7, [])])
def test_at_the_end_of_a_chain_one_bit_may_be_a_flip(added: int, alternatives: list[str]) -> None:
    """25 differs from 24 in one bit, 31 in three; no record follows that would tell."""
    finding = finding_of(_wrong(3, token=added))
    assert (finding.rule, finding.slots, finding.alternatives) == ("KV201", [9], alternatives)
    assert bool(finding.settled_by) == bool(alternatives)


def test_a_token_that_changed_after_it_was_chained_is_not_this_fault() -> None:
    world = fixture_f()
    corruptions.flip_record_bit(world, 7, corruptions.TOKEN)
    assert not report_of(world, select=("KV201",)).findings


def test_a_slot_that_two_hold_is_the_aliasing_that_the_index_names() -> None:
    """CASES.md T01: the rows are its consequence."""
    world = (
        build()
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("B", tokens=[21, 22, 23, 24], slots=[6, 7, 4, 9])
        .done()
    )
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.evidence["rows"]) == ("KV101", [4], 2)


def test_a_request_out_of_scope_has_no_finding() -> None:
    world = _wrong(1)
    assert not findings_of(world, request_ids=("A",))
    assert finding_of(world, request_ids=("B",)).slots == [7]


def test_unknown_tokens_are_not_judged() -> None:
    world = _wrong()
    world.request_of("B").tokens[1] = -1
    assert not findings_of(world)
