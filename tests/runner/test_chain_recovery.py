"""Pools without expectations: what their records prove, what they cannot, and never more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvaudit import api
from kvaudit.capture.pool_dump import PoolDump
from kvaudit.constants import RECORD_POSITION, FailReason, LaunchTag, RealKvHashMode
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.chain_entries import ChainCounters
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.entries import ALL_ENTRIES, Scope
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.layout import SlotRanges
from kvaudit.core.report import Report, Verdict
from kvaudit.core.snapshot import DumpMoment, PoolKey, Snapshot
from kvaudit.errors import SelfCheckFailed
from kvaudit.runner import chain_recovery
from kvaudit.runner.chain_recovery import ChainRecovery, judged_rows, stamped_rows
from kvaudit.runner.row_space import RowSpace
from tests.helpers import corruptions
from tests.helpers.watcher import Watcher
from tests.helpers.worlds import HEAD_HASH, World, build, fixture_f, fold, link
from tests.runner.test_footprints import CASES

ALL, NONE = RealKvHashMode.ALL, RealKvHashMode.NONE
EXAMPLES = Path(__file__).parents[2] / "examples"

# What the records of each footprint prove by themselves: without real data, then with it.
BY_CHAIN = {
    "T03": ("", "7 real"),
    "T05": ("8 position(+1)", "8 position(+1)"),
    "T08": ("", "2 real, 3 real, 4 real, 5 real"),
    "T10": ("", "8 real, 9 real"),
    "T17": ("", "7 real"),
    "T22": ("7 real", "7 real"),
    "T27": ("", "7 real"),
}
# Records that follow none in the dump, and records that a lower slot holds too.
ORPHANS = {"T01": 1, "T02": 1, "T04": 2, "T19": 1, "T21": 2}
DUPLICATES = {"T13": 4}


def alone(snapshot: Snapshot) -> Dataset:
    """A snapshot that nothing says anything of."""
    return Dataset(pools=[AuditedPool(snapshot=snapshot)])


def footprint(report: Report) -> str:
    """The rows of a report by slot; none of them names a request."""
    words = []
    for row in report.violations:
        assert row.request_ids == ()
        assert row.expected_token == -1
        if row.reasons == FailReason.VERIFY_POSITION_MISMATCH:
            words.append(f"{row.slot} position({row.position - row.expected_position:+d})")
        else:
            assert row.reasons == FailReason.VERIFY_REAL_KV_HASH_MISMATCH
            words.append(f"{row.slot} real")
    return ", ".join(words)


@pytest.mark.parametrize(("column", "mode"), [(0, NONE), (1, ALL)])
@pytest.mark.parametrize("case", CASES)
def test_a_footprint_gives_the_rows_that_its_records_prove_alone(
    run, case: str, column: int, mode: RealKvHashMode
) -> None:
    report = run(alone(CASES[case][0](mode).snapshot()), select=("KV0",))
    expected = BY_CHAIN.get(case, ("", ""))[column]
    assert footprint(report) == expected
    assert report.verdict is (Verdict.VIOLATIONS if expected else Verdict.CLEAN)
    [counters] = report.chains
    assert (counters.orphans, counters.duplicates) == (
        ORPHANS.get(case, 0),
        DUPLICATES.get(case, 0),
    )
    assert report.coverage.families[Family.INDEX] is None


def test_a_broken_position_shows_what_was_stored_and_what_its_predecessor_asks_for(run) -> None:
    world = fixture_f()
    corruptions.shift_positions(world, "B", first=2, delta=1)
    [row] = run(alone(world.snapshot())).violations
    assert (row.tag, row.entry, row.slot) == (LaunchTag.TAIL_K_FULL, 6, 8)
    assert (row.position, row.expected_position) == (3, 2)
    assert row.chain_hash == row.expected_chain_hash != 0


def test_a_flipped_bit_of_a_position_is_proved_and_its_successor_only_loses_it(run) -> None:
    world = fixture_f()
    corruptions.flip_record_bit(world, 7, RECORD_POSITION, bit=63)
    report = run(alone(world.snapshot()))
    [row] = report.violations
    assert (row.slot, row.expected_position) == (7, 1)
    assert report.chains[0].orphans == 1


def test_a_column_that_differs_is_a_row_at_the_position_that_its_record_has(run) -> None:
    world = fixture_f(stamps=("kv.v.1",))
    corruptions.flip_bit(world, "kv.v.1", 7)
    [row] = run(alone(world.snapshot())).violations
    assert (row.tag, row.slot, row.columns, row.expected_position) == (None, 7, ("kv.v.1",), 1)


def test_chains_count_as_covered_by_chain(run) -> None:
    report = run(alone(fixture_f(mode=ALL, canary=("k.head", "k.tail")).snapshot()))
    document = report.to_dict()["coverage"]
    assert document["index"] is None
    assert document["records"]["by_chain"] == document["records"]["checked"] == 16
    assert report.coverage.families[Family.RECORDS].basis == "by chain (no expectations)"
    assert document["bytes"] == {
        "planned": 8,
        "checked": 8,
        "ratio": 1.0,
        "columns_unstamped": 3,
        "columns_absent": 0,
    }
    assert document["slots"] == {"pool": 16, "planned": 8, "checked": 8}
    assert [counters.tag for counters in report.tags] == ["HEAD_K_FULL", "TAIL_K_FULL"]
    with_sequences = run(fixture_f(mode=ALL).dataset())
    assert with_sequences.to_dict()["coverage"]["records"]["by_chain"] == 0
    assert with_sequences.chains == []


def test_the_index_can_be_required_and_is_then_not_covered(run) -> None:
    report = run(alone(fixture_f().snapshot()), require=frozenset({Family.INDEX}))
    assert (report.verdict, report.exit_code) == (Verdict.INCOMPLETE, 5)
    assert "--expect" in report.incomplete_reasons[0]
    assert run(alone(fixture_f().snapshot()), require=frozenset({Family.RECORDS})).exit_code == 0


def test_beside_a_pool_with_expectations_chains_alone_are_incomplete(run) -> None:
    judged = fixture_f(key=PoolKey(rank=0)).dataset().pools[0]
    world = fixture_f(key=PoolKey(rank=1))
    unknown = AuditedPool(snapshot=world.snapshot())
    report = run(Dataset(pools=[judged, unknown]))
    assert report.verdict is Verdict.INCOMPLETE
    covered = report.coverage.families[Family.RECORDS]
    assert (covered.scope, covered.basis) == ("(8 of 16 by chain)", "")
    corruptions.shift_positions(world, "B", first=2, delta=1)
    damaged = AuditedPool(snapshot=world.snapshot())
    [row] = run(Dataset(pools=[judged, damaged])).violations
    assert (row.key.rank, row.slot) == (1, 8)


# Chains


def test_heads_forks_ends_and_orphans_are_counted(run) -> None:
    world = (
        build(num_slots=32)
        .request("A", tokens=[1, 2, 3, 4], slots=[2, 3, 4, 5])
        .request("B", tokens=[1, 2, 9, 9], slots=[2, 3, 8, 9], shared=2)
        .request("C", tokens=[1, 2, 7], slots=[2, 3, 12], shared=2)
        .request("D", tokens=[5, 6, 7], slots=[20, 21, 22])
        .done()
    )
    corruptions.zero_slots(world, [21])
    [counters] = run(alone(world.snapshot())).chains
    assert counters == ChainCounters(
        tag="TAIL_K_FULL", records=9, heads=2, orphans=1, forks=1, chains=5, duplicates=0
    )


def test_several_pools_add_up_by_tag(run) -> None:
    pools = [
        AuditedPool(snapshot=fixture_f(key=PoolKey(rank=rank)).snapshot()) for rank in range(3)
    ]
    [counters] = run(Dataset(pools=pools)).chains
    assert (counters.records, counters.heads, counters.chains) == (24, 6, 6)


def test_a_window_pool_is_judged_by_its_own_tags(run) -> None:
    world = fixture_f(key=PoolKey(pool_kind=PoolKind.SWA))
    report = run(alone(world.snapshot(window=2)))
    assert [counters.tag for counters in report.chains] == ["TAIL_K_SWA"]
    assert report.verdict is Verdict.CLEAN


@pytest.mark.parametrize("slots", [None, [3, 5, 6, 7, 8, 9, 12], [4], [7, 9]])
@pytest.mark.parametrize("reserved", ["0", "none", "0-3"])
def test_any_part_of_a_pool_and_any_reserved_slots_are_clean(run, reserved, slots) -> None:
    world = fixture_f(mode=ALL, reserved=reserved, stamps=("kv.k.0",))
    report = run(alone(world.snapshot(slots=slots)))
    assert report.verdict is Verdict.CLEAN
    held = set(range(16) if slots is None else slots) & set(range(2, 10))
    judged = held - set(range(4)) if reserved == "0-3" else held
    assert report.coverage.slots_checked == len(judged)


def test_slot_0_is_a_record_like_any_other_where_it_is_not_reserved(run) -> None:
    world = (
        build(reserved="none", mode=ALL).request("A", tokens=[11, 12, 13], slots=[0, 1, 2]).done()
    )
    assert run(alone(world.snapshot())).chains[0].records == 3
    corruptions.shift_positions(world, "A", first=1, delta=3)
    [row] = run(alone(world.snapshot())).violations
    assert (row.slot, row.position, row.expected_position) == (1, 4, 1)


# What must not raise an alarm: CASES.md 2 (guards) and 7


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


def _states(**slots: range) -> np.ndarray:
    states = np.full(16, "live", dtype=object)
    for state, places in slots.items():
        states[list(places)] = state
    return states


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
        **{"alloc.state": _states(free=range(6, 10))}
    ).snapshot(),
    "null blocks": lambda: _freed(**{"alloc.state": _states(null=range(6, 10))}).snapshot(),
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
    report = run(alone(_freed(**{"alloc.state": _states()}).snapshot()))
    assert {row.slot for row in report.violations} == {7, 8}


def test_a_free_slot_is_followed_and_not_judged(run) -> None:
    """Its record is what a live chain goes on from."""
    world = _fixture()
    world.evidence["alloc.state"] = _states(free=range(6, 8))
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


# Scope and stamps


def test_slots_out_of_scope_are_indexed_and_not_judged(run) -> None:
    world = fixture_f()
    corruptions.shift_positions(world, "B", first=2, delta=1)
    report = run(alone(world.snapshot()), slots=SlotRanges.parse("8-9"))
    assert [row.slot for row in report.violations] == [8]
    assert (report.coverage.slots_planned, report.chains[0].orphans) == (2, 0)
    assert run(alone(world.snapshot()), slots=SlotRanges.parse("2-7")).verdict is Verdict.CLEAN
    nothing = run(alone(world.snapshot()), slots=SlotRanges.parse("12-13"))
    assert nothing.verdict is Verdict.INCOMPLETE
    assert nothing.coverage.absent[Family.RECORDS] == "nothing in scope"


def test_no_record_is_in_the_scope_of_a_request() -> None:
    snapshot = fixture_f().snapshot()
    assert not judged_rows(snapshot, Scope(request_ids=frozenset({"A"}))).any()
    assert judged_rows(snapshot, ALL_ENTRIES).all()


def test_without_records_the_bytes_of_stamped_slots_are_judged(run) -> None:
    world = fixture_f(canary=(), stamps=("kv.k.0", "kv.v.1"))
    report = run(alone(world.snapshot()))
    assert report.verdict is Verdict.CLEAN
    assert report.chains == []
    assert report.coverage.absent[Family.RECORDS] == "no canary"
    covered = report.coverage.families[Family.BYTES]
    assert (covered.planned, covered.checked, report.coverage.slots_checked) == (16, 16, 8)
    corruptions.flip_bit(world, "kv.v.1", 7)
    [row] = run(alone(world.snapshot())).violations
    assert (row.slot, row.columns, row.expected_position) == (7, ("kv.v.1",), None)
    left_out = run(alone(world.snapshot()), skip_bytes=True)
    assert left_out.verdict is Verdict.INCOMPLETE
    assert "nothing says what it should hold" in left_out.incomplete_reasons[0]
    assert (left_out.coverage.slots_planned, left_out.coverage.slots_checked) == (0, 0)


def test_a_mid_step_dump_without_records_checks_no_slot(run) -> None:
    world = fixture_f(canary=(), stamps=("kv.k.0",))
    report = run(alone(world.snapshot(at=DumpMoment.MID_STEP)))
    assert (report.coverage.slots_planned, report.coverage.slots_checked) == (8, 0)


def test_stamps_of_free_and_reserved_slots_are_not_judged() -> None:
    world = fixture_f(canary=(), stamps=("kv.k.0",), reserved="0-3")
    world.evidence["alloc.state"] = _states(free=range(6, 8))
    world.stamps["kv.k.0"][[1, 2]] = 7
    snapshot = world.snapshot()
    assert np.flatnonzero(stamped_rows(snapshot, ALL_ENTRIES)).tolist() == [4, 5, 8, 9]
    scope = Scope(slots=SlotRanges.parse("5-8"))
    assert np.flatnonzero(stamped_rows(snapshot, scope)).tolist() == [5, 8]


@pytest.mark.parametrize(
    ("canary", "states", "why"),
    [
        (("k.tail",), None, "not stamped"),
        (("k.tail",), _states(free=range(16)), "free slots alone"),
    ],
)
def test_a_pool_that_records_say_nothing_of_is_incomplete_and_says_why(
    run, canary, states, why
) -> None:
    world = build(canary=canary).done() if states is None else fixture_f(canary=canary)
    if states is not None:
        world.evidence["alloc.state"] = states
    report = run(alone(world.snapshot()))
    assert (report.verdict, report.exit_code) == (Verdict.INCOMPLETE, 5)
    assert "nothing says what it should hold" in report.incomplete_reasons[0]
    assert report.coverage.absent[Family.RECORDS] == why


# The kernel behind it


def _recovery(backend: str, watcher: Watcher, snapshot: Snapshot) -> ChainRecovery:
    from kvaudit.backends.availability import choose

    return ChainRecovery(
        snapshot=snapshot,
        space=RowSpace(snapshot),
        backend=choose(backend, kv_bytes=0, num_entries=0)[0],
        observer=watcher,
        scope=ALL_ENTRIES,
    )


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_progress_covers_every_row_of_every_launch(backend: str) -> None:
    watcher = Watcher()
    _recovery(backend, watcher, fixture_f(canary=("k.head", "k.tail")).snapshot()).run()
    assert watcher.stages["chains"] == (32, 32)


def test_compiling_is_announced(monkeypatch) -> None:
    from kvaudit.kernels import compilation

    monkeypatch.setattr(compilation, "needs_compilation", lambda _: True)
    for backend, announced in (("reference", 0), ("cpu", 1)):
        watcher = Watcher()
        _recovery(backend, watcher, fixture_f().snapshot()).run()
        assert watcher.compiled == announced


def test_a_kernel_that_fails_its_check_gives_no_verdict(monkeypatch) -> None:
    from kvaudit.kernels.chain import reference

    def links_nothing(_records, _slots, prev_slots, _duplicates) -> None:
        prev_slots[:] = 0

    monkeypatch.setattr(reference, "launch_chain", links_nothing)
    with pytest.raises(SelfCheckFailed, match="chain recovery"):
        _recovery("reference", Watcher(), fixture_f().snapshot()).run()


@pytest.mark.parametrize("size", [1, 3, 16, 100])
def test_the_size_of_a_look_changes_nothing(monkeypatch, size: int) -> None:
    snapshot = fixture_f(reserved="0-3").snapshot()
    whole = _recovery("cpu", Watcher(), snapshot).run()
    monkeypatch.setattr(chain_recovery, "_ROWS_PER_LOOK", size)
    parts = _recovery("cpu", Watcher(), snapshot).run()
    assert parts.counters == whole.counters
    assert parts.entries[0].slot_indices.tolist() == whole.entries[0].slot_indices.tolist()


# Real captures, without their sequences


def _example(name: str) -> tuple[Dataset, AuditedPool]:
    [pool] = api.open([EXAMPLES / name]).pools
    return alone(pool.snapshot), pool


@pytest.mark.parametrize("name", ["smollm2-clean", "smollm2-digests"])
def test_a_real_capture_has_a_chain_a_prompt_and_is_clean(name: str) -> None:
    dataset, pool = _example(name)
    report = api.audit(dataset, backend="cpu")
    assert report.verdict is Verdict.CLEAN
    [sequences] = pool.sequences
    contents = {
        tuple(sequences.tokens_of(idx)[: int(sequences.kv_lens[idx])].tolist())
        for idx in range(sequences.num_sequences)
    }
    assert len(contents) == sequences.num_sequences == 8
    for counters in report.chains:
        assert (counters.chains, counters.orphans) == (8, 0)
    assert report.coverage.families[Family.BYTES].ratio == 1.0


def test_the_fault_of_a_real_capture_is_found_without_its_sequences() -> None:
    dataset, pool = _example("smollm2-damaged")
    found, known = (
        {(row.tag, row.slot, row.columns) for row in api.audit(each, backend="cpu").violations}
        for each in (dataset, Dataset(pools=[pool]))
    )
    assert found == known == {(LaunchTag.TAIL_V_FULL, 873, ()), (None, 873, ("kv.v.17",))}


def test_a_late_position_of_a_real_capture_is_found() -> None:
    _, pool = _example("smollm2-clean")
    column = pool.snapshot.canary["k.tail"]
    records = column.read().copy()
    records[100, RECORD_POSITION] += 1
    damaged = ArrayColumn(name=column.name, values=records)
    snapshot = replace(pool.snapshot, canary={"k.tail": damaged})
    options = AuditOptions(skip_bytes=True)
    [row] = api.audit(alone(snapshot), backend="cpu", options=options).violations
    assert row.slot == int(pool.snapshot.slots[100])


# Random damage


def _damaged_world(seed: int) -> World:
    """Chains that share prefixes, with flipped bits, zeroed slots and foreign copies."""
    rng = np.random.default_rng(seed)
    builder = build(
        num_slots=64,
        mode=RealKvHashMode(int(rng.integers(0, 3))),
        row_bytes=int(rng.choice([16, 24])),
        stamped_columns=("kv.k.0", "kv.v.1"),
        stamps=("kv.v.0",),
        canary=("k.head", "k.tail", "v.tail"),
        reserved=str(rng.choice(["0", "none", "0-3"])),
    )
    free = rng.permutation(np.arange(64)).tolist()
    for idx in range(6):
        tokens = rng.integers(0, 2, int(rng.integers(1, 10))).tolist()
        builder.request(f"r{idx}", tokens=tokens, slots=[free.pop() for _ in tokens])
    world = builder.done()
    for _ in range(int(rng.integers(0, 16))):
        one, other = rng.integers(0, 64, 2).tolist()
        match int(rng.integers(0, 4)):
            case 0:
                name, word = str(rng.choice(list(world.records))), int(rng.integers(0, 4))
                world.records[name][one, word] ^= np.uint64(1 << int(rng.integers(0, 64)))
            case 1:
                world.kv[str(rng.choice(list(world.kv)))][one, 3] ^= np.uint8(4)
            case 2:
                for array in (*world.records.values(), *world.kv.values()):
                    array[one] = 0
            case _:
                for array in world.records.values():
                    array[one] = array[other]
    return world


def _model(world: World) -> set[tuple[object, ...]]:
    """(tag or columns, slot, expected position, reasons) of every row, a record at a time."""
    rows: set[tuple[object, ...]] = set()
    held = set()
    for tag, column in (
        ("HEAD_K_FULL", "k.head"),
        ("TAIL_K_FULL", "k.tail"),
        ("TAIL_V_FULL", "v.tail"),
    ):
        records = {
            slot: [int(word) for word in words]
            for slot, words in enumerate(world.records[column])
            if words.any() and slot not in world.reserved
        }
        held |= records.keys()
        ends = {slot: link(words[2], *words[:2]) for slot, words in records.items()}
        for slot, (_, position, prev_hash, real) in records.items():
            due = {
                (records[prev][1] + 1) % 2**64
                for prev, hashed in ends.items()
                if hashed == prev_hash != HEAD_HASH
            } or {position}
            half, buffer = column.split(".")
            reasons = FailReason(0)
            if due != {position}:
                reasons |= FailReason.VERIFY_POSITION_MISMATCH
            if real != (0 if buffer == "head" else world.real_kv_hash(slot, half)):
                reasons |= FailReason.VERIFY_REAL_KV_HASH_MISMATCH
            if reasons:
                rows.add((tag, slot, due.pop(), reasons))
    for slot in held:
        stamp = world.stamps["kv.v.0"][slot]
        if stamp != fold(world.kv["kv.v.0"][slot, : world.read_bytes].tobytes()):
            rows.add((("kv.v.0",), slot, None, FailReason.COLUMN_DIGEST_MISMATCH))
    return rows


def test_random_pools_give_the_rows_of_the_model_on_every_backend(run) -> None:
    failed, reasons = 0, FailReason(0)
    for seed in range(60):
        world = _damaged_world(seed)
        report = run(alone(world.snapshot()), max_violations=10_000)
        found = {
            (row.columns, row.slot, None, row.reasons)
            if row.tag is None
            else (row.tag.name, row.slot, row.expected_position % 2**64, row.reasons)
            for row in report.violations
        }
        expected = _model(world)
        assert found == expected, f"seed {seed}"
        assert len(report.violations) == report.violations_total == len(expected)
        failed += bool(expected)
        for row in report.violations:
            reasons |= row.reasons
    assert 30 < failed < 60
    assert reasons == (
        FailReason.VERIFY_POSITION_MISMATCH
        | FailReason.VERIFY_REAL_KV_HASH_MISMATCH
        | FailReason.COLUMN_DIGEST_MISMATCH
    )


def test_an_empty_snapshot_is_incomplete(run) -> None:
    report = run(alone(fixture_f(mode=ALL).snapshot(slots=[])))
    assert (report.verdict, report.chains[0].records) == (Verdict.INCOMPLETE, 0)


def test_page_digests_alone_are_judged_by_their_stamps(run) -> None:
    world = fixture_f(stamps=("kv.k.0",))
    digests = world.snapshot(slots=range(2, 10), digests_only=True)
    pages = PoolDump(snapshot=digests, sequences=world.sequences()).by_page().snapshot
    report = run(alone(pages))
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.BYTES].scope == "(by page)"
