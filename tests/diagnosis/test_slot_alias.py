"""KV101: one slot, two live owners."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.entries import Scope
from kvaudit.core.finding import Finding
from kvaudit.core.layout import SlotRanges
from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.slot_alias import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import World, build


def _two(slots: list[int], *, tokens: list[int] | None = None, **options: object) -> World:
    return (
        build()
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("B", tokens=tokens or [21, 22, 23, 24], slots=slots, **options)
        .done()
    )


def _found(world: World, **changes: object) -> list[Finding]:
    return find(evidence_of(world, **changes))


def test_another_token_at_the_same_position_is_an_alias() -> None:
    (finding,) = _found(_two([6, 7, 4, 9]))
    assert (finding.slots, finding.request_ids) == ([4], ["A", "B"])
    assert finding.evidence["examples"] == [
        {
            "slot": 4,
            "owners": [
                {"request_id": "A", "position": 2},
                {"request_id": "B", "position": 2},
            ],
        }
    ]
    assert "slot 4 (page 2 +0)" in finding.summary


def test_another_position_is_an_alias_even_with_the_same_token() -> None:
    (finding,) = _found(_two([6, 4, 8, 9], tokens=[21, 13, 23, 24]))
    assert finding.slots == [4]


def test_the_same_token_after_another_history_is_an_alias() -> None:
    (finding,) = _found(_two([6, 7, 4, 9], tokens=[21, 12, 13, 24]))
    assert finding.slots == [4]


def test_a_shared_prefix_is_no_alias() -> None:
    assert not _found(_two([2, 3, 8, 9], tokens=[11, 12, 33, 34]))


def test_the_same_history_on_other_slots_before_is_no_alias() -> None:
    """A prefix cache may join two requests page by page."""
    assert not _found(_two([6, 7, 4, 9], tokens=[11, 12, 13, 34]))


def test_another_extra_key_makes_a_shared_prefix_an_alias() -> None:
    (finding,) = _found(_two([2, 3, 8, 9], tokens=[11, 12, 33, 34], extra_key="lora-1"))
    assert finding.slots == [2, 3]
    assert finding.evidence["num_slots"] == 2


def test_where_tokens_are_unknown_the_preceding_slot_decides() -> None:
    shared, aliased = _two([2, 3, 8, 9]), _two([6, 7, 4, 9])
    assert not _found(shared, sequences=shared.sequences(tokens=False))
    (finding,) = _found(aliased, sequences=aliased.sequences(tokens=False))
    assert finding.slots == [4]


@pytest.mark.parametrize("name", ["A", "B"])
def test_one_of_two_that_share_a_prefix_may_have_unknown_tokens(name: str) -> None:
    shared, aliased = _two([2, 3, 8, 9], tokens=[11, 12, 33, 34]), _two([6, 7, 4, 9])
    for world in (shared, aliased):
        world.request_of(name).tokens[:] = [-1] * 4
    assert not _found(shared)
    (finding,) = _found(aliased)
    assert finding.slots == [4]


def test_where_tokens_are_unknown_the_first_slot_behind_a_cut_says_nothing() -> None:
    """B's first position is out of its reach, and A still has it: who came before is not known."""
    world = _two([3, 4, 8], start_position=1)
    assert not _found(world, sequences=world.sequences(tokens=False))
    world.request_of("B").slots[:] = [3, 8, 5]
    (finding,) = _found(world, sequences=world.sequences(tokens=False))
    assert finding.slots == [5]


def test_a_sequence_that_holds_a_slot_twice_is_an_alias() -> None:
    (finding,) = _found(_two([6, 7, 6, 9]))
    assert (finding.slots, finding.request_ids) == ([6], ["B"])


@pytest.mark.parametrize("state", [SequenceState.FINISHED, SequenceState.IN_FLIGHT])
def test_who_is_not_live_owns_nothing(state: SequenceState) -> None:
    assert not _found(_two([6, 7, 4, 9], state=state))


def test_a_cached_prefix_is_live() -> None:
    assert _found(_two([6, 7, 4, 9], state=SequenceState.CACHED))


def test_slots_past_kv_len_are_not_held() -> None:
    assert not _found(_two([6, 7, 4, 9], kv_len=2))


def test_padding_and_slots_outside_the_pool_are_not_shared() -> None:
    world = _two([6, 7, 8, 9])
    world.request_of("B").slots = [0, 0, 99, 99]
    assert not _found(world)


def test_three_owners_are_one_finding() -> None:
    world = _two([6, 7, 4, 9])
    world.requests.append(replace(world.requests[1], request_id="C", slots=[10, 11, 4, 9]))
    (finding,) = _found(world)
    assert finding.slots == [4]
    assert finding.request_ids == ["A", "B", "C"]


def test_the_scope_keeps_findings_of_either_owner() -> None:
    world = _two([6, 7, 4, 9])
    for name in "AB":
        assert _found(world, scope=Scope(request_ids=frozenset(name)))
    world.requests.append(replace(world.requests[1], request_id="C", slots=[10, 11, 12, 13]))
    assert not _found(world, scope=Scope(request_ids=frozenset("C")))
    assert not _found(world, scope=Scope(slots=SlotRanges.parse("5-9")))


def test_a_pool_much_longer_than_its_plan_gives_the_same_finding() -> None:
    world = _two([6, 7, 4, 9])
    (finding,) = _found(world, snapshot=world.snapshot(num_slots=1 << 60))
    assert finding.slots == [4]


def test_random_pools_agree_with_a_slow_model() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        builder = build(num_slots=12)
        for name in "ABCD":
            length = int(rng.integers(1, 5))
            builder.request(
                name,
                tokens=rng.integers(1, 3, length).tolist(),
                slots=rng.choice(np.arange(1, 12), length, replace=False).tolist(),
            )
        world = builder.done()
        content: dict[int, set[tuple[int, ...]]] = {}
        for request in world.requests:
            for position, slot in enumerate(request.slots):
                content.setdefault(slot, set()).add(tuple(request.tokens[: position + 1]))
        expected = sorted(slot for slot, histories in content.items() if len(histories) > 1)
        assert [s for finding in _found(world) for s in finding.slots] == expected


def _planned(world: World, **options: object) -> list[Finding]:
    """What is found where a plan alone says whose slots are."""
    plan = world.plan(**options)
    return find(evidence_of(world, sequences=None, launches=tuple(plan.launches)))


@pytest.mark.parametrize("check_tokens", [False, True])
@pytest.mark.parametrize(
    ("slots", "tokens", "slot"),
    [
        ([6, 7, 4, 9], [21, 22, 23, 24], 4),
        ([6, 4, 8, 9], [21, 22, 23, 24], 4),
        ([6, 4, 8, 9], [21, 13, 23, 24], 4),
    ],
    ids=["T01", "T02", "another position"],
)
def test_two_entries_of_a_plan_for_one_slot_are_an_alias(
    slots: list[int], tokens: list[int], slot: int, check_tokens: bool
) -> None:
    (finding,) = _planned(_two(slots, tokens=tokens), check_tokens=check_tokens)
    assert (finding.slots, finding.request_ids) == ([slot], ["A", "B"])
    (unnamed,) = _planned(_two(slots, tokens=tokens), names=False)
    assert (unnamed.slots, unnamed.request_ids) == ([slot], [])
    assert "is held by a request at position 2 and by another at position" in unnamed.summary


def test_where_a_plan_has_no_tokens_the_preceding_slot_decides() -> None:
    shared, aliased = _two([2, 3, 8, 9]), _two([6, 7, 4, 9])
    for world in (shared, aliased):
        for request in world.requests:
            request.tokens[:] = [-1] * 4
    assert not _planned(shared)
    (finding,) = _planned(aliased)
    assert finding.slots == [4]


@pytest.mark.parametrize(
    "options",
    [
        {"slots": [2, 3, 8, 9], "tokens": [11, 12, 33, 34]},
        {"slots": [6, 7, 4, 9], "tokens": [11, 12, 13, 34]},
        {"slots": [4, 5, 8], "tokens": [11, 12, 13, 14, 15], "start_position": 2},
    ],
    ids=["prefix", "page by page", "cut off"],
)
def test_a_prefix_that_two_requests_of_a_plan_share_is_no_alias(options: dict[str, object]) -> None:
    assert not _planned(_two(options.pop("slots"), **options))


def test_a_plan_of_a_disabled_launch_says_nothing() -> None:
    assert not _planned(_two([6, 7, 4, 9]), enable=False)


def test_the_launches_of_a_step_are_one_finding() -> None:
    world = _two([6, 7, 4, 9])
    launches = (*world.plan().launches, *world.plan().launches)
    (finding,) = find(evidence_of(world, sequences=None, launches=launches))
    assert (finding.slots, finding.request_ids) == ([4], ["A", "B"])


def test_the_scope_keeps_findings_of_either_entry_of_a_plan() -> None:
    world = _two([6, 7, 4, 9])
    launches = tuple(world.plan().launches)
    for name, count in (("A", 1), ("B", 1), ("C", 0)):
        scope = Scope(request_ids=frozenset(name))
        found = find(evidence_of(world, sequences=None, launches=launches, scope=scope))
        assert len(found) == count
