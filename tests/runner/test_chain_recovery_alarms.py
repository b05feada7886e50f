"""What must raise no alarm without expectations: the guards of CASES.md 2, and its section 7."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kvaudit.constants import RECORD_POSITION, RealKvHashMode
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from kvaudit.core.snapshot import DumpMoment, Snapshot
from tests.helpers import corruptions
from tests.helpers.worlds import World, build, fixture_f
from tests.runner.test_chain_recovery import ALL, alone, states


def _fixture(**options: object) -> World:
    return fixture_f(**{"mode": ALL, "stamps": ("kv.k.0", "kv.v.1"), **options})


def _shared_prefix() -> Snapshot:
    return (
        build(mode=ALL)
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2)
        .done()
        .snapshot()
    )


def _twice(tokens: list[int]) -> Snapshot:
    """The same prompt twice, in slots of its own: no prefix cache."""
    builder = build(mode=ALL).request("A", tokens=tokens, slots=[2, 3, 4, 5])
    return builder.request("B", tokens=tokens, slots=[9, 8, 7, 6]).done().snapshot()


def _draft_pool(position_offset: int) -> Snapshot:
    """Stamped with another token and another position than the target's, declared or not."""
    world = _fixture()
    corruptions.shift_positions(world, "A", first=0, delta=1)
    corruptions.shift_positions(world, "B", first=0, delta=1)
    return world.snapshot(token_offset=1, position_offset=position_offset)


def _freed(**evidence: np.ndarray) -> World:
    """B was freed, a late writer touched its slots, and its record at 8 says nonsense."""
    world = _fixture()
    world.evidence.update(evidence)
    corruptions.flip_bit(world, "kv.k.0", 7)
    corruptions.flip_record_bit(world, 8, RECORD_POSITION)
    return world


def _window() -> Snapshot:
    """Positions before the window are given away: their successors have no predecessor."""
    world = _fixture()
    corruptions.zero_slots(world, [2, 3, 6])
    return world.snapshot(window=2)


def _never_stamped() -> Snapshot:
    world = _fixture()
    corruptions.zero_slots(world, [8, 9], data=False)
    world.stamps["kv.k.0"][[8, 9]] = 0
    world.evidence["stamped_step"] = np.where(np.isin(np.arange(16), [8, 9]), -1, 4)
    return world.snapshot()


def _garbage_in_reserved_slots() -> Snapshot:
    world = _fixture(reserved="0-1")
    for slot in (0, 1):
        world.stamp_record(slot, token=11, position=slot * 5, prev_hash=0x89CD2ABFBEBC0649)
        corruptions.overwrite_bytes(world, slot)
    return world.snapshot()


def _unstamped_half() -> Snapshot:
    world = _fixture(canary=("k.tail", "v.head", "v.tail"))
    for name in ("v.head", "v.tail"):
        world.records[name][:] = 0
    return world.snapshot()


def _started_late() -> Snapshot:
    """A sequence that was stamped from position 5 on begins a chain there."""
    builder = build(mode=ALL)
    builder.request("A", tokens=list(range(9)), slots=[4, 5, 6, 7], start_position=5)
    return builder.done().snapshot()


def _rejected_drafts() -> Snapshot:
    """Draft tokens at positions 3 and 4 were rejected; position 3 was then written again."""
    world = build(mode=ALL).request("A", tokens=[1, 2, 3, 7, 8], slots=[2, 3, 4, 5, 6]).done()
    request = world.request_of("A")
    request.tokens[3], request.kv_len = 9, 4
    world.stamp_request(request, first=3)
    return world.snapshot()


def _combined_hash_without_its_column() -> Snapshot:
    world = _fixture(stamped_columns=("kv.k.0", "kv.k.1"))
    snapshot = world.snapshot()
    return replace(
        snapshot, kv={name: snapshot.kv[name] for name in snapshot.kv if name != "kv.k.1"}
    )


def _mid_step() -> Snapshot:
    world = _fixture()
    corruptions.flip_bit(world, "kv.k.0", 7)
    return world.snapshot(at=DumpMoment.MID_STEP)


GUARDS: dict[str, Callable[[], Snapshot]] = {
    "G1 shared prefix": _shared_prefix,
    "one prompt twice": lambda: _twice([11, 12, 13, 14]),
    "one token over and over, twice": lambda: _twice([0, 0, 0, 0]),
    "G2 undeclared offset": lambda: _draft_pool(0),
    "G3 declared offset": lambda: _draft_pool(1),
    "G6 heads": lambda: _fixture(canary=("k.head", "v.head", "k.tail", "v.tail")).snapshot(),
    "G7 freed, and consistent": lambda: _fixture().snapshot(),
    "freed, and overwritten": lambda: _freed(
        **{"alloc.state": states(free=range(6, 10))}
    ).snapshot(),
    "null blocks": lambda: _freed(**{"alloc.state": states(null=range(6, 10))}).snapshot(),
    "G8 unstamped half": _unstamped_half,
    "window": _window,
    "never stamped": _never_stamped,
    "reserved slots": _garbage_in_reserved_slots,
    "a chain begun late": _started_late,
    "rejected draft tokens": _rejected_drafts,
    "a column of the combined hash absent": _combined_hash_without_its_column,
    "digests alone": lambda: _fixture().snapshot(digests_only=True),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_what_is_no_fault_raises_no_alarm(run, guard: str) -> None:
    report = run(alone(GUARDS[guard]()))
    assert report.violations == []
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.RECORDS].checked > 0


def test_bytes_of_a_mid_step_dump_are_not_judged(run) -> None:
    report = run(alone(_mid_step()))
    assert (report.violations_total, report.verdict) == (0, Verdict.INCOMPLETE)
    assert "KV001" in {finding.rule for finding in report.findings}


def test_the_same_faults_on_live_slots_are_rows(run) -> None:
    report = run(alone(_freed(**{"alloc.state": states()}).snapshot()))
    assert {row.slot for row in report.violations} == {7, 8}


def test_a_free_slot_is_followed_and_not_judged(run) -> None:
    """Its record is what a live chain goes on from."""
    world = _fixture()
    world.evidence["alloc.state"] = states(free=range(6, 8))
    report = run(alone(world.snapshot()))
    assert report.chains[0].orphans == 0
    assert report.coverage.slots_checked == 6


@pytest.mark.parametrize("seed", range(25))
def test_random_clean_pools_are_clean(run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    builder = build(
        num_slots=96,
        page_size=int(rng.choice([1, 4, 16])),
        mode=RealKvHashMode(int(rng.integers(0, 3))),
        stamped_columns=("kv.k.0", "kv.v.1"),
        stamps=("kv.v.0",),
        canary=("k.head", "k.tail", "v.tail"),
        reserved=str(rng.choice(["0", "none", "0-3"])),
    )
    free = rng.permutation(np.arange(4, 96)).tolist()
    sequences: list[tuple[list[int], list[int]]] = [([], [])]
    for idx in range(8):
        tokens, slots = sequences[int(rng.integers(0, len(sequences)))]
        shared = int(rng.integers(0, len(tokens) + 1))
        new = rng.integers(0, 3, int(rng.integers(1, 12))).tolist()
        tokens = tokens[:shared] + new
        slots = slots[:shared] + [free.pop() for _ in new]
        builder.request(f"r{idx}", tokens=tokens, slots=slots, shared=shared)
        sequences.append((tokens, slots))
    world = builder.done()
    corruptions.zero_slots(world, rng.choice(sequences[-1][1], 1).tolist())
    report = run(alone(world.snapshot()))
    assert report.verdict is Verdict.CLEAN
    covered = report.coverage.families[Family.RECORDS]
    assert covered.checked == covered.planned > 0
