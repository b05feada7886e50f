"""The comparison as a whole: what is clean, what is not, and what was not compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.comparison_choices import ComparedContent, MatchBy
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import Dataset
from kvaudit.core.report import Verdict
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import DumpMoment, PoolKey
from kvaudit.errors import ConfigError, InputError, SnapshotInconsistent
from tests.helpers.comparing import (
    DEVICE,
    HOST,
    THERE,
    change_byte,
    clear,
    compared,
    dumped,
    finding_of,
)

REPLICATED = {"kv_sharding": "replicated"}


@pytest.mark.parametrize("sequences", [True, False])
@pytest.mark.parametrize("content", list(ComparedContent))
def test_relocated_pools_are_clean_and_fully_compared(
    content: ComparedContent, sequences: bool
) -> None:
    digests = content is ComparedContent.DIGESTS
    dumps = [
        dumped(**where).dataset(snapshot=dumped(**where).snapshot(digests_only=digests))
        if sequences
        else dumped(**where).snapshot(digests_only=digests)
        for where in ({}, {"slots": THERE, "key": HOST})
    ]
    report = compared(*dumps, content=content)
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)
    families = report.coverage.families
    assert families[Family.RECORDS].ratio == families[Family.BYTES].ratio == 1.0
    assert families[Family.BYTES].planned == 8 * 4
    [leg] = report.legs
    assert (leg.name, leg.num_matched) == ("A->B (device -> host)", 8)
    assert not leg.unchecked


@pytest.mark.parametrize("column", ["kv.k.0", "kv.v.1"])
@pytest.mark.parametrize("digests_only", [False, True])
def test_one_changed_byte_is_named_with_its_slot_column_and_request(
    column: str, digests_only: bool
) -> None:
    damaged = dumped(THERE, key=HOST)
    change_byte(damaged, 12, column=column)
    other = damaged.dataset(snapshot=damaged.snapshot(digests_only=digests_only))
    report = compared(dumped(), other)
    assert (report.verdict, report.exit_code) == (Verdict.VIOLATIONS, 1)
    [row] = report.violations
    assert (row.slot, row.columns, row.request_ids) == (12, (column,), ("A",))
    [found] = report.findings
    assert (found.rule, found.slots, found.request_ids) == ("KV402", [12], ["A"])
    assert found.evidence["columns"] == [column]
    assert ("byte" in found.evidence["examples"][0]) is not digests_only


def test_of_three_tiers_the_leg_that_did_the_damage_is_named() -> None:
    back = PoolKey(tier="device", step=2)
    clean, host, returned = dumped(), dumped(THERE, key=HOST), dumped(key=back)
    assert compared(clean, host, returned).verdict is Verdict.CLEAN
    on_the_way = dumped(THERE, key=HOST)
    change_byte(on_the_way, 12)
    carried = dumped(key=back)
    change_byte(carried, 4)
    found = finding_of(clean, on_the_way, carried)
    assert found.evidence["leg"].startswith("A->B")
    assert found.evidence["num_carried_on_to_C"] == 1
    report = compared(clean, on_the_way, returned)
    assert [found.evidence["leg"][:4] for found in report.findings] == ["A->B"]
    assert "num_carried_on_to_C" not in report.findings[0].evidence
    assert "1 slot of this dump as A has it, and not as B does" in report.legs[1].unchecked[0]
    report = compared(clean, host, carried)
    [found] = report.findings
    assert (found.evidence["leg"], found.slots) == ("B->C (host -> device)", [4])
    assert [leg.slots_differing for leg in report.legs] == [0, 1]


def test_rows_of_three_dumps_with_one_key_say_which_dump_they_are_of() -> None:
    worlds = [dumped(THERE, key=HOST) for _ in range(3)]
    change_byte(worlds[1], 12)
    change_byte(worlds[2], 12)
    change_byte(worlds[2], 3)
    report = compared(*worlds)
    assert {(row.key.instance, row.slot) for row in report.violations} == {("B", 12), ("C", 3)}
    assert [found.key.instance for found in report.findings] == ["B", "C"]
    assert [key.instance for key in report.page_sizes] == ["B", "C"]


def test_damage_on_both_legs_is_two_findings() -> None:
    host, back = dumped(THERE, key=HOST), dumped(key=PoolKey(tier="device", step=2))
    change_byte(host, 12)
    change_byte(back, 4)
    change_byte(back, 7)
    report = compared(dumped(), host, back)
    assert [found.evidence["leg"][:4] for found in report.findings] == ["A->B", "B->C"]
    assert [found.slots for found in report.findings] == [[12], [7]]


def test_a_tail_that_never_arrived_is_found_with_sequences_and_incomplete_without() -> None:
    damaged = dumped(THERE, key=HOST)
    clear(damaged, [12, 13])
    found = finding_of(dumped(), damaged)
    assert (found.rule, found.slots) == ("KV402", [12, 13])
    assert found.alternatives == ("KV311", "KV209")
    report = compared(dumped(), damaged, sequences=False)
    assert (report.verdict, report.exit_code) == (Verdict.INCOMPLETE, 5)
    assert report.coverage.families[Family.RECORDS].ratio == 0.75
    assert compared(dumped(), damaged, sequences=False, min_coverage=75).exit_code == 0


def test_bytes_that_another_slot_should_hold_are_told_from_others() -> None:
    damaged = dumped(THERE, key=HOST)
    for data in damaged.kv.values():
        data[[10, 11]] = data[[11, 10]]
    found = finding_of(dumped(), damaged)
    assert found.evidence["num_held_elsewhere"] == 2
    assert found.alternatives == ("KV310", "KV202")
    assert "holds what slot 3 (page 1 +1) of A does" in found.summary


def test_ranks_agree_on_records_and_hold_other_kv_by_right() -> None:
    ranks = [dumped(key=PoolKey(rank=rank)) for rank in range(2)]
    ranks[1].kv = {name: data + 1 for name, data in ranks[1].kv.items()}
    report = compared(*ranks)
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.BYTES] is None
    assert "kv_sharding" in report.coverage.absent[Family.BYTES]
    assert compared(*ranks, require=frozenset({Family.BYTES})).exit_code == 5
    replicated = [rank.dataset(snapshot=rank.snapshot(metadata=REPLICATED)) for rank in ranks]
    assert finding_of(*replicated).rule == "KV401"


def test_a_rank_that_loaded_something_else_is_named() -> None:
    ranks = [dumped(key=PoolKey(rank=rank)) for rank in range(2)]
    ranks[1].records["k.tail"][4, 0] = 99
    found = finding_of(*ranks)
    assert (found.rule, found.slots, found.request_ids) == ("KV401", [4], ["A"])
    assert "rank 1 does not hold what rank 0 does" in found.summary
    assert "token 99, and not 13" in found.summary
    [row] = compared(*ranks).violations
    assert (row.tag.name, row.token, row.expected_token) == ("TAIL_K_FULL", 99, 13)


def test_a_rank_without_a_request_diverges_though_every_record_is_right() -> None:
    ranks = [dumped(key=PoolKey(rank=rank)) for rank in range(2)]
    ranks[1].requests.pop()
    found = finding_of(*ranks)
    assert (found.rule, found.request_ids) == ("KV401", ["B"])
    assert "request B is in A alone" in found.summary
    assert compared(*ranks).exit_code == 1


def test_data_parallel_ranks_hold_other_requests_by_right() -> None:
    ranks = [
        dumped(key=PoolKey(rank=rank)).snapshot(metadata={"dp_rank": str(rank)})
        for rank in range(2)
    ]
    [leg] = compared(*ranks).legs
    assert leg.kind == "transfer"


def test_more_failed_rows_at_a_later_step_are_a_finding() -> None:
    steps = [dumped(key=PoolKey(step=step)) for step in (100, 120, 140)]
    change_byte(steps[1], 4)
    change_byte(steps[2], 4)
    change_byte(steps[2], 7)
    rules = {found.rule: found for found in compared(*steps[:2]).findings}
    assert rules["KV403"].evidence["failed_rows"][0] == 0
    assert "damage began between them" in rules["KV403"].summary
    report = compared(*steps[1:], select=("KV403",))
    [found] = report.findings
    assert "something still damages the pool" in found.summary
    assert found.slots == [7]
    later = replace(steps[1], key=PoolKey(step=160))
    same = compared(steps[1], later, select=("KV403",))
    assert not same.findings
    assert any("2 failed rows at step 120" in each for each in same.legs[0].unchecked)


def test_nothing_in_common_is_never_clean() -> None:
    other = dumped(THERE, key=HOST)
    for request, tokens in zip(other.requests, ((91, 92, 93, 94), (81, 82, 83, 84)), strict=True):
        request.request_id, request.tokens = f"other-{request.request_id}", list(tokens)
        other.stamp_request(request)
    report = compared(dumped(), other)
    assert (report.verdict, report.exit_code) == (Verdict.INCOMPLETE, 5)
    assert any("nothing was compared" in reason for reason in report.incomplete_reasons)
    empty = dumped().snapshot(slots=())
    assert compared(empty, empty).exit_code == 5


def test_a_request_that_ends_early_behind_a_transfer_is_not_clean() -> None:
    short = dumped(THERE, key=HOST)
    short.request_of("A").kv_len = 2
    clear(short, [12, 13])
    report = compared(dumped(), short)
    assert report.exit_code == 5
    assert report.coverage.families[Family.INDEX].checked == 6
    assert report.coverage.families[Family.RECORDS].checked == 6
    assert "2 positions of requests: B ends before them" in report.legs[0].unchecked
    longer = dumped()
    longer.request_of("A").kv_len = 2
    assert compared(longer, dumped(THERE, key=HOST)).exit_code == 0
    steps = [dumped(key=PoolKey(step=step)) for step in range(2)]
    steps[1].request_of("A").kv_len = 2
    assert compared(*steps).exit_code == 0


def test_content_of_b_that_a_lacks_is_said_and_lowers_nothing() -> None:
    report = compared(dumped().snapshot(slots=range(6)), dumped(THERE, key=HOST), sequences=False)
    assert report.verdict is Verdict.CLEAN
    assert report.legs[0].right_unmatched == 4
    assert "4 of 8 slots of B: A has none of their content" in report.legs[0].unchecked


def test_a_layer_that_one_dump_lacks_lowers_the_coverage_unless_it_is_left_out() -> None:
    snapshot = dumped(THERE, key=HOST).snapshot()
    kv = {name: column for name, column in snapshot.kv.items() if not name.endswith(".1")}
    other = replace(snapshot, kv=kv)
    report = compared(dumped(), other)
    assert report.exit_code == 5
    assert report.coverage.families[Family.BYTES].ratio == 0.5
    assert set(report.legs[0].columns_left_out) == {"kv.k.1", "kv.v.1"}
    assert compared(dumped(), other, layers=(0,)).exit_code == 0


def test_another_geometry_is_an_input_error_that_names_both_files() -> None:
    left = dumped().snapshot(path="left.arrow")
    right = dumped(THERE, key=HOST, row_bytes=32).snapshot(path="right.arrow")
    with pytest.raises(SnapshotInconsistent) as error:
        compared(left, right)
    assert error.value.path == "left.arrow"
    assert "right.arrow" in str(error.value)
    assert error.value.column == "kv.k.0"


@pytest.mark.parametrize("part", [{"group": "draft"}, {"pool_kind": "SWA"}])
def test_another_pool_is_an_input_error(part: dict[str, str]) -> None:
    left = dumped(key=PoolKey(group="target")).snapshot(path="left.arrow")
    right = dumped(key=replace(PoolKey(group="target"), pool="", **part)).snapshot(
        path="right.arrow"
    )
    with pytest.raises(SnapshotInconsistent, match=r"right\.arrow"):
        compared(left, right)


def test_a_dump_in_mid_step_has_its_records_compared_and_no_bytes() -> None:
    damaged = dumped(THERE, key=HOST)
    change_byte(damaged, 12)
    hasty = damaged.dataset(snapshot=damaged.snapshot(at=DumpMoment.MID_STEP))
    report = compared(dumped(), hasty)
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.absent[Family.BYTES] == "B taken in mid-step"


def test_copies_in_flight_are_not_judged() -> None:
    damaged = dumped(THERE, key=HOST)
    damaged.request_of("B").state = SequenceState.IN_FLIGHT
    clear(damaged, THERE[1])
    report = compared(dumped(), damaged)
    assert not report.violations_total
    assert "request B: A alone holds them" in report.legs[0].unchecked


def test_one_request_or_layer_may_be_compared_alone() -> None:
    damaged = dumped(THERE, key=HOST)
    change_byte(damaged, 12)
    assert compared(dumped(), damaged, request_ids=("B",)).verdict is Verdict.CLEAN
    assert compared(dumped(), damaged, request_ids=("A",)).exit_code == 1
    assert compared(dumped(), damaged, layers=(0,)).verdict is Verdict.CLEAN
    with pytest.raises(ConfigError, match="nobody"):
        compared(dumped(), damaged, request_ids=("nobody",))
    with pytest.raises(ConfigError, match="layer 7"):
        compared(dumped(), damaged, layers=(7,))


def test_the_same_prompt_computed_twice_may_differ_in_its_last_bits() -> None:
    """A's two copies differ; B has each of them, in the other order."""

    def twice(slots: tuple[tuple[int, ...], ...], key: PoolKey, late: int):
        world = dumped(slots, key=key)
        world.requests[1].tokens = list(world.requests[0].tokens)
        world.stamp_request(world.requests[1])
        world.kv["kv.v.1"][slots[late][3], 0] ^= np.uint8(1)
        return world

    left = twice(((2, 3, 4, 5), (6, 7, 8, 9)), DEVICE, 0)
    right = twice(((2, 3, 4, 5), (6, 7, 8, 9)), HOST, 1)
    assert compared(left, right, match=MatchBy.CONTENT).verdict is Verdict.CLEAN
    change_byte(right, 9, byte=3)
    report = compared(left, right, match=MatchBy.CONTENT)
    assert [row.slot for row in report.violations] == [9]


def test_rules_that_are_ignored_find_nothing_and_rows_fail_all_the_same() -> None:
    damaged = dumped(THERE, key=HOST)
    change_byte(damaged, 12)
    report = compared(dumped(), damaged, ignore=("KV402",))
    assert not report.findings
    assert report.exit_code == 1


def test_several_pools_are_paired_by_rank_and_one_without_a_partner_is_said() -> None:
    def pools(count: int, **where: object) -> Dataset:
        worlds = [dumped(key=PoolKey(rank=rank, **where)) for rank in range(count)]
        return Dataset(pools=[world.dataset().pools[0] for world in worlds])

    assert compared(pools(2), pools(2, tier="host")).verdict is Verdict.CLEAN
    report = compared(pools(2), pools(3, tier="host"))
    assert report.exit_code == 5
    assert "B alone has FULL.r2" in report.incomplete_reasons[0]
    with pytest.raises(ConfigError, match="two dumps"):
        compared(Dataset(pools=[*pools(1).pools, *pools(1).pools]), pools(2))


def test_a_pool_that_cannot_be_compared_is_left_out_and_the_others_are_compared() -> None:
    def pools(**shape: object) -> Dataset:
        return Dataset(
            pools=[
                dumped(key=PoolKey(rank=0)).dataset().pools[0],
                dumped(key=PoolKey(rank=1), **shape).dataset().pools[0],
            ]
        )

    report = compared(pools(), pools(row_bytes=32))
    assert report.exit_code == 3
    assert isinstance(report.left_out[0], InputError)
    assert len(report.legs) == 1
