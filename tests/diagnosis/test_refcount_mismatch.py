"""KV108: the allocator's counts against the sequences."""

from __future__ import annotations

import numpy as np

from kvaudit.core.entries import Scope
from kvaudit.core.finding import Finding
from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.refcount_mismatch import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import World, build


def _world(**refs: int) -> World:
    """A and C share slots 2 and 3; the counts are right but for those given: `s2=1`."""
    world = (
        build()
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2)
        .done()
    )
    counts = np.zeros(16, dtype=np.int32)
    counts[[2, 3, 4, 5, 8, 9]] = [2, 2, 1, 1, 1, 1]
    for slot, ref in refs.items():
        counts[int(slot[1:])] = ref
    world.evidence["alloc.ref"] = counts
    return world


def _found(world: World, **changes: object) -> list[Finding]:
    return find(evidence_of(world, **changes))


def test_right_counts_are_clean() -> None:
    assert not _found(_world())


def test_fewer_references_than_running_holders_are_named() -> None:
    (finding,) = _found(_world(s2=1))
    assert (finding.slots, finding.request_ids) == ([2], ["A", "C"])
    assert finding.evidence["examples"] == [{"slot": 2, "ref": 1, "running": 2, "sequences": 2}]


def test_more_references_than_sequences_are_named() -> None:
    assert _found(_world(s4=3))[0].slots == [4]


def test_more_references_prove_nothing_where_others_are_not_listed() -> None:
    assert not _found(_world(s4=3, s12=1))


def test_a_prefix_cache_may_hold_one_more() -> None:
    world = _world(s4=2)
    world.evidence["alloc.state"] = np.where(np.arange(16) == 4, "cached", "live").astype(object)
    assert not _found(world)


def test_a_cached_prefix_may_hold_one_or_none() -> None:
    for ref in (1, 2):
        world = _world(s2=ref, s3=ref)
        world.request_of("C").state = SequenceState.CACHED
        assert not _found(world)


def test_slots_allocated_ahead_may_be_counted() -> None:
    world = _world(s10=1)
    world.request_of("C").slots.append(10)
    assert not _found(world)


def test_a_negative_count_is_kv107_alone() -> None:
    assert not _found(_world(s4=-1))


def test_the_scope_is_kept_and_no_evidence_means_no_guess() -> None:
    assert not _found(_world(s4=0), scope=Scope(request_ids=frozenset("C")))
    assert _found(_world(s4=0), scope=Scope(request_ids=frozenset("A")))
    (finding,) = _found(_world(s4=0, s9=0), scope=Scope(request_ids=frozenset("C")))
    assert (finding.slots, finding.request_ids) == ([9], ["C"])
    assert [example["slot"] for example in finding.evidence["examples"]] == [9]
    assert finding.summary.startswith(
        "slot 9 (page 4 +1) has 0 references, but 1 sequence names it"
    )
    assert not _found(_world(s4=0), columns={})
    assert not _found(_world(s4=0), sequences=None)
