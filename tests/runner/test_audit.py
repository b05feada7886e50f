"""The pipeline: what must stay clean, and one result for every form of one pool."""

from __future__ import annotations

import pytest

from kvaudit.constants import FailReason, LaunchTag, RealKvHashMode
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.layout import SlotRanges
from kvaudit.core.report import InputFile, Report, Verdict
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError
from tests.helpers import corruptions
from tests.helpers.worlds import World, build, fixture_f, sequences_of

ALL = RealKvHashMode.ALL
EVERY_COLUMN = ("k.head", "k.tail", "v.head", "v.tail")


def _covered(report: Report, family: Family) -> dict[str, object]:
    return report.to_dict()["coverage"][str(family)]


def _rows(report: Report) -> list[tuple[object, ...]]:
    return [
        (row.tag, row.entry, row.slot, row.columns, row.reasons, row.request_ids)
        for row in report.violations
    ]


def _with_shared_prefix() -> World:
    return (
        build(mode=ALL)
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2)
        .done()
    )


def test_a_shared_prefix_is_clean_and_no_alias(run) -> None:
    """CASES.md G1."""
    report = run(_with_shared_prefix().dataset())
    assert report.verdict is Verdict.CLEAN
    assert not report.findings
    assert report.coverage.slots_planned == 6
    assert _covered(report, Family.RECORDS)["checked"] == 8


def _draft_pool() -> World:
    return build(mode=ALL).request("A", tokens=[12, 13, 14, 15], slots=[2, 3, 4, 5]).done()


def test_an_undeclared_token_offset_fails_every_row(run) -> None:
    """CASES.md G2: never forgiven."""
    world = _draft_pool()
    snapshot = world.snapshot()
    world.requests[0].tokens = [11, 12, 13, 14, 15]
    report = run(world.dataset(snapshot=snapshot))
    assert [row.reasons for row in report.violations] == [FailReason.VERIFY_TOKEN_MISMATCH] * 4


def test_a_declared_token_offset_is_clean(run) -> None:
    """CASES.md G3."""
    world = _draft_pool()
    snapshot = world.snapshot(token_offset=1)
    world.requests[0].tokens = [11, 12, 13, 14, 15]
    assert run(world.dataset(snapshot=snapshot)).verdict is Verdict.CLEAN


def test_a_declared_position_offset_is_clean_and_an_undeclared_one_is_not(run) -> None:
    world = fixture_f()
    corruptions.shift_positions(world, "A", first=0, delta=1)
    corruptions.shift_positions(world, "B", first=0, delta=1)
    assert len(run(world.dataset()).violations) == 8
    declared = world.dataset(snapshot=world.snapshot(position_offset=1))
    assert run(declared).verdict is Verdict.CLEAN


def test_unfilled_plan_rows_are_skipped_and_counted(run) -> None:
    """CASES.md G5."""
    world = fixture_f(mode=ALL)
    pool = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(padding=3),))
    report = run(Dataset(pools=[pool]))
    covered = _covered(report, Family.RECORDS)
    assert report.verdict is Verdict.CLEAN
    assert (covered["planned"], covered["checked"], covered["ratio"]) == (11, 8, 1.0)
    assert covered["skipped_padding"] == 3
    assert report.tags[0].slots_run == 11


def test_head_records_without_a_real_kv_hash_are_clean(run) -> None:
    """CASES.md G6."""
    report = run(fixture_f(mode=ALL, canary=("k.head", "k.tail")).dataset())
    assert report.verdict is Verdict.CLEAN
    assert [counters.tag for counters in report.tags] == ["HEAD_K_FULL", "TAIL_K_FULL"]


def test_a_freed_slot_with_an_old_canary_is_clean(run) -> None:
    """CASES.md G7."""
    world = fixture_f(mode=ALL)
    builder = build(mode=ALL)
    builder.world = world
    builder.request("old", tokens=[31, 32, 33, 34], slots=[10, 11, 12, 13])
    world.requests.pop()
    report = run(world.dataset())
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.slots_planned == 8


def test_an_unstamped_half_is_counted_and_clean(run) -> None:
    """CASES.md G8."""
    world = fixture_f(mode=ALL, canary=EVERY_COLUMN)
    for name in ("v.head", "v.tail"):
        world.records[name][:] = 0
        world.records[name][0] = 7  # record 0 is legal garbage, whatever it holds
    report = run(world.dataset())
    covered = _covered(report, Family.RECORDS)
    assert report.verdict is Verdict.CLEAN
    assert (covered["planned"], covered["checked"], covered["unstamped"]) == (32, 16, 16)
    assert covered["ratio"] == 1.0
    (finding,) = report.findings
    assert (finding.rule, finding.severity) == ("KV004", "note")
    assert finding.evidence["columns"] == ["canary.v.head", "canary.v.tail"]


def test_the_last_sampled_token_has_no_kv_and_raises_nothing(run) -> None:
    """CASES.md G9."""
    world = fixture_f(mode=ALL)
    for request in world.requests:
        request.tokens.append(99)
    report = run(world.dataset())
    assert report.verdict is Verdict.CLEAN
    assert _covered(report, Family.INDEX)["planned"] == 8


def test_slots_past_kv_len_are_never_judged(run) -> None:
    world = fixture_f(mode=ALL)
    world.request_of("B").slots += [10, 11]
    world.request_of("B").kv_len = 3
    corruptions.zero_slots(world, [9])
    assert run(world.dataset()).verdict is Verdict.CLEAN


def test_sequences_in_flight_are_counted_and_not_judged(run) -> None:
    world = fixture_f(mode=ALL)
    corruptions.zero_slots(world, [6, 7, 8, 9])
    world.request_of("B").state = SequenceState.IN_FLIGHT
    report = run(world.dataset())
    assert report.verdict is Verdict.CLEAN
    assert _covered(report, Family.INDEX)["planned"] == 4
    assert _covered(report, Family.INDEX)["sequences_in_flight"] == 1


def test_a_start_position_leaves_the_first_predecessor_unreachable(run) -> None:
    world = fixture_f(mode=ALL)
    request = world.request_of("B")
    request.slots, request.start_position = request.slots[2:], 2
    corruptions.zero_slots(world, [6, 7])
    report = run(world.dataset())
    assert report.verdict is Verdict.CLEAN
    assert _covered(report, Family.RECORDS)["predecessor_unreachable"] == 1


def _damaged() -> World:
    world = fixture_f(mode=ALL, stamps=("kv.v.0", "kv.v.1"))
    corruptions.overwrite_slot(world, 7, token=99, position=1, prev_hash=5)
    corruptions.flip_bit(world, "kv.v.1", 4)
    return world


def test_a_sparse_dump_gives_the_rows_of_the_dense_one(run) -> None:
    world = _damaged()
    dense = run(world.dataset())
    sparse = run(world.dataset(snapshot=world.snapshot(slots=[2, 3, 4, 5, 6, 7, 8, 9])))
    assert _rows(sparse) == _rows(dense)
    assert len(_rows(dense)) == 4
    for family in (Family.INDEX, Family.RECORDS, Family.BYTES):
        assert _covered(sparse, family) == _covered(dense, family)


def test_a_pool_whose_slot_0_is_real_gives_the_same_rows_two_slots_lower(run) -> None:
    world = _damaged()
    expected = run(world.dataset())
    moved = (
        build(mode=ALL, stamps=("kv.v.0", "kv.v.1"), reserved="none")
        .request("A", tokens=[11, 12, 13, 14], slots=[0, 1, 2, 3])
        .request("B", tokens=[21, 22, 23, 24], slots=[4, 5, 6, 7])
        .done()
    )
    corruptions.overwrite_slot(moved, 5, token=99, position=1, prev_hash=5)
    corruptions.flip_bit(moved, "kv.v.1", 2)
    report = run(moved.dataset())
    assert _rows(report) == [(*row[:2], row[2] - 2, *row[3:]) for row in _rows(expected)]
    assert _covered(report, Family.RECORDS) == _covered(expected, Family.RECORDS)
    by_plan = Dataset(pools=[AuditedPool(snapshot=moved.snapshot(), plans=(moved.plan(),))])
    assert _rows(run(by_plan)) == _rows(report)


def test_a_digests_only_dump_gives_the_rows_of_the_bytes(run) -> None:
    world = _damaged()
    by_bytes, by_digests = (
        run(world.dataset(snapshot=world.snapshot(digests_only=only))) for only in (False, True)
    )
    assert _rows(by_digests) == _rows(by_bytes)
    assert by_digests.timing.kv_bytes == 0
    assert by_bytes.timing.kv_bytes == 8 * 16 * 3


def test_a_window_pool_judges_the_window_alone(run) -> None:
    key = PoolKey(pool="SWA", pool_kind=PoolKind.SWA)
    world = fixture_f(mode=ALL, key=key)
    corruptions.zero_slots(world, [2, 3, 6, 7])
    report = run(world.dataset(snapshot=world.snapshot(window=2)))
    covered = _covered(report, Family.RECORDS)
    assert report.verdict is Verdict.CLEAN
    assert (covered["planned"], covered["predecessor_unreachable"]) == (4, 2)
    assert [counters.tag for counters in report.tags] == ["TAIL_K_SWA"]
    corruptions.zero_slots(world, [5])
    failed = run(world.dataset(snapshot=world.snapshot(window=2)))
    assert [(row.tag, row.slot) for row in failed.violations] == [(LaunchTag.TAIL_K_SWA, 5)]


def test_a_slot_outside_the_pool_is_a_row_and_a_finding(run) -> None:
    world = fixture_f(mode=ALL)
    world.request_of("B").slots[1] = 16
    report = run(world.dataset())
    row, after = report.violations[1], report.violations[0]
    assert (row.slot, row.reasons) == (16, FailReason.SLOT_OUT_OF_RANGE)
    assert (row.position, row.chain_hash, row.expected_token) == (None, None, 22)
    assert after.reasons == FailReason.PREV_SLOT_OUT_OF_RANGE
    assert [finding.rule for finding in report.findings] == ["KV102"]


def test_several_pools_stand_in_one_report(run) -> None:
    clean = fixture_f(mode=ALL, key=PoolKey(rank=0))
    damaged = fixture_f(mode=ALL, key=PoolKey(rank=1))
    corruptions.flip_bit(damaged, "kv.k.0", 7)
    pools = [world.dataset().pools[0] for world in (clean, damaged)]
    report = run(Dataset(pools=pools))
    assert [(row.key.rank, row.slot) for row in report.violations] == [(1, 7)]
    assert report.coverage.slots_pool == 32
    assert (report.tags[0].kernel_runs, report.tags[0].checked) == (2, 16)


def test_bytes_of_two_ranks_are_never_compared(run) -> None:
    one, other = (fixture_f(mode=ALL, key=PoolKey(rank=rank)) for rank in (0, 1))
    for name in other.kv:
        other.kv[name][2:10] ^= 1
    for slot in range(2, 10):
        other.records["k.tail"][slot, 3] = other.real_kv_hash(slot, "k")
    pools = [world.dataset().pools[0] for world in (one, other)]
    assert run(Dataset(pools=pools)).verdict is Verdict.CLEAN


def test_rows_are_sorted_capped_and_counted_exactly(run) -> None:
    world = fixture_f(mode=ALL, canary=("k.head", "k.tail"), stamps=("kv.v.0",))
    for slot in range(2, 10):
        corruptions.flip_record_bit(world, slot, corruptions.POSITION)
        corruptions.flip_bit(world, "kv.v.0", slot)
    everything = run(world.dataset(), max_violations=1000, select=("KV0",))
    keys = [row.sort_key() for row in everything.violations]
    assert keys == sorted(keys)
    assert everything.violations_total == len(everything.violations) == 8 * 3
    for limit in (0, 1, 5, 12, 20):
        capped = run(world.dataset(), max_violations=limit, select=("KV0",))
        assert _rows(capped) == _rows(everything)[:limit]
        assert capped.violations_total == 24
        assert capped.exit_code == 1


def test_one_request_alone_is_judged(run) -> None:
    world = _damaged()
    report = run(world.dataset(), request_ids=("A",))
    assert [(row.slot, row.request_ids) for row in report.violations] == [(4, ("A",))]
    assert _covered(report, Family.RECORDS)["planned"] == 4
    by_plan = Dataset(pools=[AuditedPool(snapshot=world.snapshot(), plans=(world.plan(),))])
    assert _rows(run(by_plan, request_ids=("A",))) == _rows(report)


def test_entries_keep_their_numbers_under_a_filter(run) -> None:
    world = _damaged()
    whole = [row for row in _rows(run(world.dataset())) if row[5] == ("B",)]
    assert _rows(run(world.dataset(), request_ids=("B",))) == whole


def test_some_slots_alone_are_judged(run) -> None:
    report = run(_damaged().dataset(), slots=SlotRanges.parse("4,8-9"))
    assert {row.slot for row in report.violations} == {4, 8}
    assert _covered(report, Family.RECORDS)["planned"] == 3
    assert _covered(report, Family.INDEX)["planned"] == 3


def test_one_layer_alone_is_judged(run) -> None:
    world = fixture_f(stamps=("kv.v.0", "kv.v.1"))
    corruptions.flip_bit(world, "kv.v.1", 4)
    assert run(world.dataset(), layers=(0,)).verdict is Verdict.CLEAN
    assert run(world.dataset(), layers=(1,)).violations_total == 1


def test_a_request_that_nothing_names_is_refused(run) -> None:
    with pytest.raises(ConfigError) as caught:
        run(fixture_f().dataset(), request_ids=("A", "nobody"))
    assert "A, B" in caught.value.hint


def test_a_rule_that_does_not_exist_is_refused(run) -> None:
    with pytest.raises(ConfigError):
        run(fixture_f().dataset(), select=("KV9",))


def test_bytes_left_out_are_said_to_be(run) -> None:
    world = _damaged()
    corruptions.flip_bit(world, "kv.k.0", 3)
    report = run(world.dataset(), skip_bytes=True)
    assert {row.slot for row in report.violations} == {7, 8}
    assert report.coverage.families[Family.BYTES] is None
    assert report.coverage.absent[Family.BYTES] == "left out"
    assert report.timing.kv_bytes == 0


def test_several_sequence_files_are_numbered_as_one(run) -> None:
    world = _damaged()
    parts = tuple(sequences_of([request]) for request in world.requests)
    split = Dataset(pools=[AuditedPool(snapshot=world.snapshot(), sequences=parts)])
    assert _rows(run(split)) == _rows(run(world.dataset()))


def test_a_plan_of_another_step_is_used_and_said_so(run) -> None:
    world = fixture_f(mode=ALL, key=PoolKey(step=9))
    early, late = (world.plan(step=step) for step in (3, 5))
    plan = type(late)(path="x.plan.arrow", launches=[*early.launches, *late.launches])
    pool = AuditedPool(snapshot=world.snapshot(), plans=(plan,))
    report = run(Dataset(pools=[pool], files=[InputFile(path="x.plan.arrow", kind="plan")]))
    assert _covered(report, Family.RECORDS)["planned"] == 8
    (note,) = report.inputs[0].notes
    assert "step 9" in note
    assert "step 5" in note


def test_the_report_is_json(run) -> None:
    import json

    document = json.loads(json.dumps(run(_damaged().dataset()).to_dict()))
    assert document["schema"] == "kvaudit.report/1"
    assert document["self_check"] == "passed"
    assert document["violations"]["rows"][-1]["tag"] is None
    assert document["violations"]["rows"][-1]["columns"] == ["kv.v.0", "kv.v.1"]


def test_rows_and_findings_carry_the_whole_key_of_their_pool(run) -> None:
    keys = [PoolKey(step=1), PoolKey(step=2), PoolKey(instance="decode-0", tier="host", step=1)]
    pools = []
    for number, key in enumerate(keys):
        world = fixture_f(mode=ALL, key=key, page_size=2 << number)
        corruptions.flip_bit(world, "kv.k.0", 5 + number)
        world.request_of("A").kv_len = 5
        pools += world.dataset().pools
    report = run(Dataset(pools=pools))
    assert {row.key: row.slot for row in report.violations} == dict(
        zip(keys, (5, 6, 7), strict=True)
    )
    assert [found.key for found in report.findings if found.rule == "KV304"] == keys
    lengths = [found for found in report.findings if found.rule == "KV104"]
    assert [found.key for found in lengths] == [keys[0], keys[2]]
    assert lengths[0].evidence["steps"] == [1, 2]
    assert report.page_sizes == dict(zip(keys, (2, 4, 8), strict=True))
