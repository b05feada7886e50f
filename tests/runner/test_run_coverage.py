"""What each family covers, and in which words it says that it covers nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.layer0_table import TableSource
from kvaudit.core.layout import SlotRanges
from kvaudit.core.report import Verdict
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError
from tests.helpers.layer0_worlds import chatty_world
from tests.helpers.worlds import World, build, fixture_f

ALL = RealKvHashMode.ALL
STAMPED = {"mode": ALL, "stamps": ("kv.k.0", "kv.v.1")}


def _planned(world: World, **plan: object) -> Dataset:
    return Dataset(pools=[AuditedPool(snapshot=world.snapshot(), plans=(world.plan(**plan),))])


def test_a_pool_without_canary_or_stamps_is_covered_by_index_alone(run) -> None:
    report = run(fixture_f(canary=()).dataset())
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.absent == {
        Family.RECORDS: "no canary",
        Family.BYTES: "not stamped",
        Family.IDENTITY: "not applicable: the type of kv.v.0 is not given",
    }
    assert report.coverage.slots_checked == 0


def test_a_family_that_is_covered_has_no_reason_to_be_absent(run) -> None:
    assert set(run(fixture_f(**STAMPED).dataset()).coverage.absent) == {Family.IDENTITY}


def test_slots_that_nothing_names_are_out_of_scope_and_not_unstamped(run) -> None:
    report = run(fixture_f(**STAMPED).dataset(), slots=SlotRanges.parse("12-13"))
    for family in (Family.INDEX, Family.RECORDS, Family.BYTES):
        assert report.coverage.absent[family] == "nothing in scope"
    assert report.verdict is Verdict.INCOMPLETE


def test_a_layer_without_a_stamp_is_out_of_scope_and_not_unstamped(run) -> None:
    world = fixture_f(mode=ALL, stamps=("kv.k.0",))
    report = run(world.dataset(), layers=(1,))
    assert report.coverage.absent[Family.BYTES] == "nothing in scope"


def test_a_layer_that_no_pool_has_is_refused_with_those_there_are(run) -> None:
    with pytest.raises(ConfigError, match="layer 99") as caught:
        run(fixture_f(**STAMPED).dataset(), layers=(0, 99))
    assert caught.value.hint == "the layers are 0, 1"
    bare = fixture_f()
    with pytest.raises(ConfigError) as caught:
        run(bare.dataset(snapshot=bare.snapshot(kv={})), layers=(0,))
    assert caught.value.hint == "no pool has KV columns"


def test_a_combined_hash_without_one_of_its_columns_says_so(run) -> None:
    world = fixture_f(mode=ALL, stamped_columns=("kv.k.0", "kv.k.1"))
    kept = {name: column for name, column in world.snapshot().kv.items() if name != "kv.k.1"}
    report = run(world.dataset(snapshot=world.snapshot(kv=kept)))
    assert report.coverage.absent[Family.BYTES] == "a column is absent"


def test_stamps_and_records_that_are_zero_are_not_stamped(run) -> None:
    world = fixture_f(**STAMPED)
    world.stamps["kv.k.0"][:] = world.stamps["kv.v.1"][:] = 0
    world.records["k.tail"][:] = 0
    absent = run(world.dataset()).coverage.absent
    assert (absent[Family.RECORDS], absent[Family.BYTES]) == ("not stamped", "not stamped")


def test_a_combined_hash_that_no_launch_reads_is_not_called_unstamped(run) -> None:
    world = fixture_f(mode=ALL, canary=("k.head", "k.tail"))
    report = run(_planned(world, tags=(LaunchTag.HEAD_K_FULL,)))
    assert report.coverage.absent[Family.BYTES] == "no launch covers it"


def test_padding_and_sequences_in_flight_are_named(run) -> None:
    padding = build(mode=ALL).done()
    padding.stamp_record(3, token=1, position=0, prev_hash=0)
    assert run(_planned(padding, padding=2)).coverage.absent[Family.RECORDS] == "padding alone"
    waiting = fixture_f(mode=ALL)
    for request in waiting.requests:
        request.state = SequenceState.IN_FLIGHT
    absent = run(waiting.dataset()).coverage.absent
    assert (absent[Family.INDEX], absent[Family.RECORDS]) == ("no entries", "no entries")


def test_pools_with_different_reasons_name_each_once(run) -> None:
    pools = [
        fixture_f(canary=canary, key=PoolKey(rank=rank)).dataset().pools[0]
        for rank, canary in enumerate([(), (), ("k.tail",)])
    ]
    unstamped = pools[2].snapshot.canary["k.tail"].values
    unstamped[:] = 0
    assert run(Dataset(pools=pools)).coverage.absent[Family.RECORDS] == "no canary, not stamped"


@pytest.mark.parametrize("options", [{"select": ("KV004",)}, {"ignore": ("KV1",)}], ids=str)
def test_an_index_of_which_every_rule_was_left_out_is_not_checked(run, options) -> None:
    report = run(fixture_f(mode=ALL).dataset(), **options)
    covered = report.coverage.families[Family.INDEX]
    assert (covered.planned, covered.checked) == (8, 0)
    assert report.verdict is Verdict.INCOMPLETE
    assert "--select KV1" in report.incomplete_reasons[0]


def test_one_rule_of_the_index_checks_it_and_the_others_are_named(run) -> None:
    report = run(fixture_f(mode=ALL).dataset(), ignore=("KV101", "KV104"))
    covered = report.coverage.families[Family.INDEX]
    assert (covered.checked, covered.scope) == (8, "(KV101, KV104 left out)")
    assert report.verdict is Verdict.CLEAN


def test_sequences_in_flight_are_counted_even_if_there_are_none(run) -> None:
    assert run(fixture_f().dataset()).to_dict()["coverage"]["index"]["sequences_in_flight"] == 0


def test_identity_says_what_it_judged_by_and_how_many_pools(run) -> None:
    world = chatty_world()
    table = world.model.table()
    known = np.arange(40)
    part = world.model.table(
        tokens=known, k0=table.k0[known], v0=table.v0[known], source=TableSource.LEARNT
    )

    def scope(dataset: Dataset, **options: object) -> str:
        covered = run(dataset, **options).coverage.families[Family.IDENTITY]
        assert covered is not None
        return covered.scope

    assert scope(world.dataset()) == "(by repetition)"
    assert scope(world.dataset(), layer0=table) == ""
    assert re.fullmatch(r"\(\d+ by repetition\)", scope(world.dataset(), layer0=part))
    unlike = replace(world.pool().snapshot, kv={}, key=PoolKey(rank=1))
    both = Dataset(pools=[world.pool(), replace(world.pool(), snapshot=unlike)])
    assert scope(both, layer0=table) == "(1 of 2 pools)"
