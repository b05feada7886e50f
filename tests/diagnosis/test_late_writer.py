"""KV203: a slot was written over by whoever had it before."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.sequences import SequenceState
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.given_away import saved_pool, with_saved, write_late
from tests.helpers.long_pools import PAGE_SIZES, long_pool
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, build, fixture_f, link

TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])
FOREIGN = link(0x1234, 77, 0)


def _overwritten(world: World, slots: list[int], *, position: int) -> World:
    running = FOREIGN
    for idx, slot in enumerate(slots):
        token = 700 + idx
        corruptions.overwrite_slot(
            world, slot, token=token, position=position + idx, prev_hash=running
        )
        running = link(running, token, position + idx)
    return world


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@TOKENS
def test_one_slot_is_proved_by_its_successor(page_size: int, tokens: bool) -> None:
    """CASES.md T04."""
    world = long_pool(page_size, num_pages=4 if page_size > 1 else 30)
    slot = world.request_of("R1").slots[20]
    finding = finding_of(_overwritten(world, [slot], position=20), tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV203", [slot], ["R1"])
    assert (finding.evidence["token"], finding.evidence["token_before"]) == (700, 2020)
    assert not finding.alternatives


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("position", [20, 3])
@TOKENS
def test_several_slots_in_a_row_are_one_cause_whose_owner_is_open(
    page_size: int, position: int, tokens: bool
) -> None:
    world = long_pool(page_size, num_pages=4 if page_size > 1 else 30)
    slots = world.request_of("R1").slots[20:25]
    finding = finding_of(_overwritten(world, slots, position=position), tokens=tokens)
    assert (finding.rule, finding.request_ids) == ("KV203", ["R1"])
    assert finding.slots[0] == slots[0]
    assert (finding.alternatives, bool(finding.settled_by)) == (["KV202"], True)


@TOKENS
def test_another_token_in_the_same_place_of_the_chain_is_a_later_write(tokens: bool) -> None:
    """A rejected draft token, say: the record is right in itself, and its successor is not its."""
    world = fixture_f()
    corruptions.overwrite_slot(
        world, 7, token=1234, position=1, prev_hash=int(world.records["k.tail"][7, 2])
    )
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots) == ("KV203", [7])
    assert finding.evidence["token_before"] == 22


@TOKENS
def test_the_content_of_a_finished_sequence_names_its_owner(tokens: bool) -> None:
    world = long_pool(16)
    world.request_of("R2").state = SequenceState.FINISHED
    mine, theirs = world.request_of("R0").slots, world.request_of("R2").slots
    corruptions.copy_slots(world, theirs[30:32], mine[20:22])
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV203", mine[20:22], ["R0"])
    assert (finding.evidence["content_of"], finding.alternatives) == ("R2", [])


def test_records_left_on_freed_slots_are_an_earlier_owners() -> None:
    """CASES.md G7: such slots are sources of the join, and have no finding of their own."""
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    world = builder.request("old", tokens=[31, 32, 33, 34], slots=[10, 11, 12, 13]).done()
    world.requests.pop()
    assert not findings_of(world)
    corruptions.copy_slots(world, [12], [4])
    finding = finding_of(world)
    assert (finding.rule, finding.slots) == ("KV203", [4])
    assert finding.evidence["examples"] == [{"slot": 4, "holds_content_of_slot": 12}]


def test_the_allocators_owner_stands_beside() -> None:
    world = fixture_f()
    owners = np.full(world.num_slots, None, dtype=object)
    owners[7] = "old-9"
    world.evidence["alloc.owner"] = owners
    _overwritten(world, [7], position=1)
    assert finding_of(world, ignore=("KV1",)).evidence["alloc_owner"] == "old-9"


def test_two_writers_are_two_causes() -> None:
    world = long_pool(16)
    one, other = world.request_of("R0").slots[9], world.request_of("R1").slots[30]
    _overwritten(world, [one], position=9)
    _overwritten(world, [other], position=30)
    assert [found.slots for found in findings_of(world)] == [[one], [other]]


def test_a_flipped_hash_is_no_writer() -> None:
    world = fixture_f()
    corruptions.flip_record_bit(world, 7, corruptions.PREV_HASH)
    assert [found.rule for found in findings_of(world)] == ["KV208"]


def test_a_plans_slot_that_fits_one_of_its_two_claims_was_not_written_over() -> None:
    """CASES.md T01, where only a plan is given."""
    from kvaudit.core.dataset import AuditedPool, Dataset

    world = (
        build()
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("B", tokens=[21, 22, 23, 24], slots=[6, 7, 4, 9])
        .done()
    )
    pool = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(),))
    assert not report_of(Dataset(pools=[pool]), select=("KV203",)).findings


def test_bytes_that_a_finished_request_had_there_before_are_its_late_write() -> None:
    world, saved = fixture_f(stamps=F_STAMPS), saved_pool()
    write_late(world, saved, [7, 8])
    report = report_of(with_saved(world, saved))
    (finding,) = (found for found in report.findings if not found.rule.startswith("KV0"))
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV203", [7, 8], ["B"])
    assert finding.evidence["content_of"] == "F"
    assert "the bytes that request F had there before; 2 slots in all" in finding.summary
    assert finding.evidence["rows"] == report.violations_total
    assert not finding.alternatives


def test_without_what_was_saved_the_bytes_are_of_nobody() -> None:
    world = fixture_f(stamps=F_STAMPS)
    write_late(world, saved_pool(), [7, 8])
    assert finding_of(world).rule == "KV301"
