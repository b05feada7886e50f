from __future__ import annotations

from dataclasses import replace

import pytest

from kvaudit.core.engine_log import LoggedViolation
from kvaudit.core.log_report import LoggedSlot
from kvaudit.diagnosis import log_groups
from kvaudit.diagnosis.log_groups import ViolationGroups, roots
from kvaudit.importers.engine_log import read_engine_log
from tests.helpers.engine_logs import BYTES, CHAIN, RECORDS, log_of, rows


def _violations(records, **options) -> list[LoggedViolation]:
    return list(read_engine_log([log_of(rows(records, **options)).encode()]))


def _slots(violations: list[LoggedViolation]) -> list[LoggedSlot]:
    groups = ViolationGroups()
    for violation in violations:
        groups.add(violation)
    return groups.slots()


ALIAS = _violations({**RECORDS, 4: RECORDS[8]})


def test_one_content_of_one_slot_is_one_group_over_tags_steps_and_ranks() -> None:
    [first, _] = ALIAS
    repeats = [
        replace(first, tag=tag, rank=rank, step=step)
        for tag in ("HEAD_K_FULL", "TAIL_K_FULL", "HEAD_V_FULL", "TAIL_V_FULL")
        for rank in ("TP0", "TP1")
        for step in (9, 7, 8)
    ]
    [slot] = _slots([*repeats, replace(repeats[0], tag="TAIL_K_FULL", reasons=BYTES, step=None)])
    assert slot.num_rows == 25
    assert slot.tags == ["HEAD_K_FULL", "TAIL_K_FULL", "HEAD_V_FULL", "TAIL_V_FULL"]
    assert (slot.ranks, slot.first_step, slot.last_step) == (["TP0", "TP1"], 7, 9)
    assert slot.reasons == CHAIN | BYTES


@pytest.mark.parametrize(
    "change", [{"slot": 5}, {"position": 9}, {"token": 9}, {"chain_hash": 9}, {"tag": "HEAD_K_SWA"}]
)
def test_another_content_or_another_pool_is_another_group(change: dict[str, object]) -> None:
    assert len(_slots([ALIAS[0], replace(ALIAS[0], **change)])) == 2


def test_a_successor_is_folded_into_the_slot_whose_record_it_was_judged_by() -> None:
    for order in (ALIAS, ALIAS[::-1]):
        [(root, behind)] = roots(_slots(order))
        assert (root.slot, [slot.slot for slot in behind]) == (4, [5])


@pytest.mark.parametrize(
    "change", [{"expected_hash": 1}, {"tag": "HEAD_K_SWA"}, {"reasons": CHAIN | BYTES}]
)
def test_what_the_hash_does_not_prove_is_a_root_of_its_own(change: dict[str, object]) -> None:
    assert len(roots(_slots([ALIAS[0], replace(ALIAS[1], **change)]))) == 2


def test_a_record_in_several_failing_slots_is_a_root_of_its_neighbour_alone() -> None:
    """Slot 4 holds slot 8's record, and slot 8 fails too, by what happened to slot 7."""
    records = {**RECORDS, 4: RECORDS[8], 7: (22, 1, 5)}
    found = roots(_slots(_violations(records)))
    assert [(root.slot, [slot.slot for slot in behind]) for root, behind in found] == [
        (4, [5]),
        (7, [8]),
    ]
    far = [
        slot if slot.slot != 5 else replace(slot, slot=50) for slot in _slots(_violations(records))
    ]
    assert sorted(root.slot for root, _ in roots(far)) == [4, 7, 50]


def test_followers_of_followers_belong_to_the_first() -> None:
    records = {**RECORDS, 3: (12, 1, 5), 4: (13, 2, 6)}
    found = roots(_slots(_violations(records)))
    assert [(root.slot, [slot.slot for slot in behind]) for root, behind in found] == [(3, [4, 5])]


def test_forged_rows_that_follow_from_each_other_end_somewhere() -> None:
    one, two = _slots(ALIAS)
    link = {one.slot: log_groups._link(two), two.slot: log_groups._link(one)}
    looped = [
        replace(slot, expected_hashes=[link[slot.slot]], reasons=CHAIN) for slot in (one, two)
    ]
    found = roots(looped)
    assert {slot.slot for root, behind in found for slot in (root, *behind)} == {4, 5}


def test_what_is_kept_is_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_groups, "MAX_GROUPS", 3)
    monkeypatch.setattr(log_groups, "MAX_VALUES", 2)
    groups = ViolationGroups()
    for number in range(10):
        groups.add(replace(ALIAS[0], slot=number % 5, expected_hash=number))
    assert (groups.num_rows, groups.num_ungrouped, len(groups.slots())) == (10, 4, 3)
    for number in range(9):
        groups.add(replace(ALIAS[0], slot=0, expected_hash=100 + number))
    assert len(groups.slots()[0].expected_hashes) == 2
