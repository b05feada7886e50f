"""Pools without expectations: what their records prove, what they cannot, and never more."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.capture.pool_dump import PoolDump
from kvaudit.constants import RECORD_POSITION, FailReason, LaunchTag, RealKvHashMode
from kvaudit.core.chain_entries import ChainCounters
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.entries import ALL_ENTRIES, Scope
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
from tests.helpers.worlds import build, fixture_f
from tests.runner.test_footprints import CASES

ALL, NONE = RealKvHashMode.ALL, RealKvHashMode.NONE

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


def states(**slots: range) -> np.ndarray:
    """`alloc.state` of fixture F: live but for these slots."""
    column = np.full(16, "live", dtype=object)
    for state, places in slots.items():
        column[list(places)] = state
    return column


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
    world.evidence["alloc.state"] = states(free=range(6, 8))
    world.stamps["kv.k.0"][[1, 2]] = 7
    snapshot = world.snapshot()
    assert np.flatnonzero(stamped_rows(snapshot, ALL_ENTRIES)).tolist() == [4, 5, 8, 9]
    scope = Scope(slots=SlotRanges.parse("5-8"))
    assert np.flatnonzero(stamped_rows(snapshot, scope)).tolist() == [5, 8]


@pytest.mark.parametrize(
    ("canary", "states", "why"),
    [
        (("k.tail",), None, "not stamped"),
        (("k.tail",), states(free=range(16)), "free slots alone"),
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
