"""Bytes of another sequence in a slot whose record is its own: KV202 and KV203 without records."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.sequences import SequenceState
from tests.helpers.diagnosing import finding_of, findings_of
from tests.helpers.stamped_pools import F_STAMPS, deep_pool
from tests.helpers.worlds import World, build, content

OPTIONS = [{"stamps": F_STAMPS}, {"mode": RealKvHashMode.ALL}, {"mode": RealKvHashMode.PARTIAL}]


def _copied(state: SequenceState | None, **options: object) -> World:
    """Slots 3 and 4 of A hold the bytes of slots 7 and 8 of B."""
    world = (
        build(**options)
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("B", tokens=[21, 22, 23, 24], slots=[6, 7, 8, 9], state=state)
        .done()
    )
    for data in world.kv.values():
        data[[3, 4]] = data[[7, 8]]
    return world


@pytest.mark.parametrize("options", OPTIONS, ids=["stamps", "all", "partial"])
def test_bytes_of_a_live_sequence_are_foreign_content(options: dict[str, object]) -> None:
    finding = finding_of(_copied(None, **options))
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV202", [3, 4], ["A"])
    assert finding.evidence["content_of"] == "B"
    assert finding.summary == (
        "slot 3 (page 1 +1) of request A has its own record and the bytes of slot 7 (page 3 +1), "
        "which belongs to request B; 2 slots in all"
    )


@pytest.mark.parametrize("options", OPTIONS, ids=["stamps", "all", "partial"])
def test_bytes_of_a_finished_sequence_are_a_late_writers(options: dict[str, object]) -> None:
    finding = finding_of(_copied(SequenceState.FINISHED, **options))
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV203", [3, 4], ["A"])
    assert "which belongs to request B, which is finished" in finding.summary


def test_bytes_of_a_slot_that_nobody_claims_are_a_late_writers() -> None:
    world = _copied(None, stamps=F_STAMPS)
    world.requests.pop()
    finding = finding_of(world)
    assert (finding.rule, finding.evidence["content_of"]) == ("KV203", "nobody")
    assert "which belongs to nobody any more" in finding.summary


@pytest.mark.parametrize("digests_only", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_it_is_found_in_many_layers_at_any_page_size(page_size: int, digests_only: bool) -> None:
    world = deep_pool(page_size)
    slots, others = (world.request_of(name).slots[9:14] for name in "BA")
    for data in world.kv.values():
        data[slots] = data[others]
    snapshot = world.snapshot(digests_only=digests_only)
    finding = finding_of(world.dataset(snapshot=snapshot))
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV202", slots, ["B"])


def test_what_a_stamped_reserved_slot_holds_is_no_earlier_owners() -> None:
    world = _copied(None, stamps=F_STAMPS)
    for name, data in world.kv.items():
        data[[0, 4]] = content(name, 0, 0, data.shape[1])
    world.stamp_digests(0)
    found = {(finding.rule, *finding.slots) for finding in findings_of(world)}
    assert found == {("KV202", 3), ("KV309", 4)}
