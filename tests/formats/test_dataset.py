"""Snapshots meet their expectations by key, never by chance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import (
    FileUnreadable,
    InputError,
    NotArrow,
    SchemaMismatch,
    SnapshotInconsistent,
)
from kvaudit.formats.dataset import open_dataset
from kvaudit.formats.plan_writer import write_plan
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.formats.state_writer import write_state
from tests.helpers.arrow_files import (
    canary_state,
    plan,
    recorded_steps,
    sequences,
    snapshot,
    write_trace,
)

RANK_0, RANK_1 = PoolKey(rank=0, step=5), PoolKey(rank=1, step=5)


@pytest.fixture
def dump(tmp_path):
    """Write one file by its name: `a.snapshot`, `a.sequences`, `a.plan`."""
    writers = {
        "snapshot": (write_snapshot, snapshot),
        "sequences": (write_sequences, sequences),
        "plan": (write_plan, plan),
        "state": (write_state, canary_state),
    }

    def write(name, key=RANK_0, **changes):
        path = tmp_path / f"{name}.arrow"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file, build = writers[name.rpartition(".")[2]]
        write_file(path, build(key=key, **changes))
        return str(path)

    return write


def counts(dataset):
    """Sequences and plans of each pool."""
    return [(len(pool.sequences), len(pool.plans)) for pool in dataset.pools]


def test_a_folder_is_read_whole_and_paired_by_key(dump, tmp_path):
    for letter, key in (("a", RANK_0), ("b", RANK_1)):
        dump(f"{letter}.snapshot", key)
        dump(f"{letter}.sequences", key)
    dump("p.plan", PoolKey(rank=1))
    dataset = open_dataset([tmp_path])
    assert [pool.snapshot.key for pool in dataset.pools] == [RANK_0, RANK_1]
    assert [pool.sequences[0].key for pool in dataset.pools] == [RANK_0, RANK_1]
    # The plan gives no step, so its key is that of rank 1 at any step.
    assert counts(dataset) == [(1, 0), (1, 1)]
    assert [file.kind for file in dataset.files] == [
        "sequences",
        "snapshot",
        "sequences",
        "snapshot",
        "plan",
    ]


def test_folders_in_a_folder_are_read_too(dump, tmp_path):
    for step in (1, 2):
        dump(f"step-{step}/a.snapshot", PoolKey(step=step))
        dump(f"step-{step}/a.sequences", PoolKey(step=step))
    assert counts(open_dataset([str(tmp_path)])) == [(1, 0), (1, 0)]


def test_companions_beside_a_snapshot_are_found_by_key(dump):
    path = dump("a.snapshot")
    dump("any-name.sequences")
    dump("p.plan", PoolKey(rank=0))
    dump("other.sequences", RANK_1)
    dataset = open_dataset([path])
    assert counts(dataset) == [(1, 1)]
    assert len(dataset.files) == 3


def test_companions_that_a_snapshot_names_are_the_only_ones_looked_for(dump):
    path = dump("a.snapshot", metadata={"sequences": "below/named.sequences.arrow"})
    dump("a.sequences")
    named = dump("below/named.sequences", PoolKey())
    dataset = open_dataset([path])
    assert [file.path for file in dataset.files] == [path, named]
    assert counts(dataset) == [(1, 0)]


def test_several_companions_may_be_named(dump):
    metadata = {
        "sequences": '["s0.sequences.arrow","s1.sequences.arrow"]',
        "plan": "p.plan.arrow",
    }
    path = dump("a.snapshot", metadata=metadata)
    dump("s0.sequences")
    dump("s1.sequences", PoolKey(step=5))
    dump("p.plan")
    assert counts(open_dataset([path])) == [(2, 1)]


def test_expectations_given_replace_the_search(dump, tmp_path):
    path = dump("a.snapshot")
    dump("a.sequences")
    expected = dump("elsewhere/x.plan", PoolKey(rank=0))
    assert counts(open_dataset([path], expect=[expected])) == [(0, 1)]
    (tmp_path / "folder").mkdir()
    dump("folder/b.snapshot")
    dump("folder/b.sequences")
    assert counts(open_dataset([tmp_path / "folder"], expect=[expected])) == [(0, 1)]


def test_an_expectation_without_a_key_fits_a_snapshot_with_one(dump):
    path = dump("a.snapshot", PoolKey(instance="x", pool="SWA", pool_kind=PoolKind.SWA, rank=1))
    sequences_path = dump("other/s.sequences", PoolKey(pool="SWA", pool_kind=PoolKind.SWA))
    assert counts(open_dataset([path], expect=[sequences_path])) == [(1, 0)]
    assert counts(open_dataset([path, sequences_path])) == [(1, 0)]


def test_the_same_key_wins_over_one_that_merely_agrees(dump):
    paths = [dump("a.snapshot", PoolKey()), dump("b.snapshot", RANK_1)]
    expected = dump("other/s.sequences", PoolKey())
    assert counts(open_dataset(paths, expect=[expected])) == [(1, 0), (0, 0)]


def test_an_expectation_that_fits_no_snapshot_is_refused_with_the_difference(dump):
    path = dump("a.snapshot", RANK_0)
    expected = dump("other/s.sequences", RANK_1)
    with pytest.raises(SnapshotInconsistent, match="rank 1 and not 0") as caught:
        open_dataset([path], expect=[expected])
    assert caught.value.path == expected


def test_an_expectation_found_in_a_folder_that_fits_nothing_is_noted(dump, tmp_path):
    dump("a.snapshot", RANK_0)
    dump("b.sequences", RANK_1)
    dataset = open_dataset([tmp_path])
    assert counts(dataset) == [(0, 0)]
    assert [file.notes for file in dataset.files if file.kind == "sequences"] == [
        ["no snapshot of this run has its pairing key"]
    ]


def test_a_named_companion_that_contradicts_its_snapshot_is_refused(dump):
    path = dump("a.snapshot", metadata={"sequences": "s.sequences.arrow"})
    dump("s.sequences", RANK_1)
    with pytest.raises(SnapshotInconsistent):
        open_dataset([path])


@pytest.mark.parametrize("kind", ["snapshot", "sequences", "plan"])
def test_two_files_of_one_key_and_kind_are_refused_naming_both(dump, tmp_path, kind):
    dump("a.snapshot", RANK_1)
    first, second = dump(f"x.{kind}"), dump(f"y.{kind}")
    with pytest.raises(SnapshotInconsistent) as caught:
        open_dataset([tmp_path])
    assert caught.value.path == second
    assert first in caught.value.message


def test_a_file_given_twice_is_read_once(dump, tmp_path):
    path = dump("a.snapshot")
    (tmp_path / "link.arrow").symlink_to(path)
    dataset = open_dataset([path, str(tmp_path), str(tmp_path / "link.arrow")])
    assert [file.path for file in dataset.files] == [path]


def test_no_snapshot_is_an_input_error_that_says_what_to_give(dump):
    path = dump("a.sequences")
    with pytest.raises(InputError) as caught:
        open_dataset([path])
    assert path in str(caught.value)
    assert "snapshot" in caught.value.hint


def test_a_snapshot_is_no_expectation(dump):
    path = dump("a.snapshot")
    with pytest.raises(SchemaMismatch):
        open_dataset([path], expect=[dump("b.snapshot", RANK_1)])


def test_a_snapshot_alone_has_no_expectations(dump):
    assert counts(open_dataset([dump("a.snapshot")])) == [(0, 0)]


def test_notes_and_page_size_reach_the_report(dump):
    dataset = open_dataset([dump("a.snapshot", PoolKey(rank=2))])
    assert dataset.files[0].page_size == 2
    assert dataset.files[0].key == {"pool_kind": "FULL", "rank": 2}
    assert dataset.files[0].notes == []


def test_a_damaged_file_of_a_folder_is_left_out_and_named(dump, tmp_path):
    kept = dump("a.snapshot")
    damaged = tmp_path / "b.arrow"
    damaged.write_bytes(b"ARROW1 and nothing else")
    dataset = open_dataset([tmp_path])
    assert [pool.snapshot.path for pool in dataset.pools] == [kept]
    (error,) = dataset.left_out
    assert (type(error), error.path) == (NotArrow, str(damaged))
    assert [(file.path, file.kind) for file in dataset.files] == [
        (kept, "snapshot"),
        (str(damaged), "unknown"),
    ]
    assert dataset.files[1].notes == (f"not audited: {error.message}",)


def test_the_only_pools_damage_stops_the_run(dump, tmp_path):
    dump("a.snapshot")
    (tmp_path / "a.sequences.arrow").write_bytes(b"ARROW1 and nothing else")
    with pytest.raises(NotArrow) as caught:
        open_dataset([tmp_path])
    assert caught.value.path == str(tmp_path / "a.sequences.arrow")
    for path in tmp_path.iterdir():
        path.write_bytes(b"ARROW1 and nothing else")
    with pytest.raises(NotArrow):
        open_dataset([tmp_path])


def test_a_pool_without_one_of_its_expectations_is_left_out(dump, tmp_path):
    for letter, key in (("a", RANK_0), ("b", RANK_1)):
        dump(f"{letter}.snapshot", key)
        dump(f"{letter}.sequences", key)
        dump(f"{letter}.plan", key)
    damaged = tmp_path / "b.plan.arrow"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    dataset = open_dataset([tmp_path])
    assert [pool.snapshot.key for pool in dataset.pools] == [RANK_0]
    assert counts(dataset) == [(1, 1)]
    notes = {file.path: file.notes for file in dataset.files}
    assert str(damaged) in notes[str(tmp_path / "b.snapshot.arrow")][0]
    assert notes[str(tmp_path / "b.sequences.arrow")]
    assert len(dataset.left_out) == 1


@pytest.mark.parametrize("metadata", [{}, {"sequences": "b.sequences.arrow"}])
@pytest.mark.parametrize("is_missing", [False, True])
def test_a_pool_left_out_for_its_companion_has_one_reason(dump, tmp_path, metadata, is_missing):
    dump("a.snapshot", RANK_0)
    lost = dump("b.snapshot", RANK_1, metadata=metadata)
    damaged = tmp_path / "b.sequences.arrow"
    if not is_missing:
        damaged.write_bytes(b"ARROW1 and nothing else")
    dataset = open_dataset([tmp_path / "a.snapshot.arrow", lost, damaged])
    assert [pool.snapshot.key for pool in dataset.pools] == [RANK_0]
    assert [error.path for error in dataset.left_out] == [str(damaged)]
    assert {file.path for file in dataset.files if file.notes} >= {lost, str(damaged)}


def test_expectations_that_are_replaced_may_be_damaged(dump, tmp_path):
    for letter, key in (("a", RANK_0), ("b", RANK_1)):
        dump(f"pools/{letter}.snapshot", key)
        (tmp_path / f"pools/{letter}.sequences.arrow").write_bytes(b"ARROW1 and nothing else")
    expect = [dump("elsewhere/a.plan", RANK_0), dump("elsewhere/b.plan", RANK_1)]
    dataset = open_dataset([tmp_path / "pools"], expect=expect)
    assert counts(dataset) == [(0, 1), (0, 1)]
    assert dataset.left_out == []


def test_an_expectation_of_a_pool_that_is_left_out_goes_to_no_other(dump, tmp_path):
    dump("a.snapshot", PoolKey())
    given = dump("b.sequences", PoolKey(rank=1))
    keyless = dump("c.sequences", PoolKey())
    paths = [tmp_path / "a.snapshot.arrow", given, keyless, tmp_path / "b.snapshot.arrow"]
    dataset = open_dataset(paths)
    assert [part.path for part in dataset.pools[0].sequences] == [keyless]
    assert [type(error) for error in dataset.left_out] == [FileUnreadable]


def test_an_expectation_given_by_name_must_be_read(dump, tmp_path):
    paths = [dump("a.snapshot", RANK_0), dump("b.snapshot", RANK_1)]
    damaged = tmp_path / "a.sequences.arrow"
    damaged.write_bytes(b"ARROW1 and nothing else")
    with pytest.raises(NotArrow):
        open_dataset(paths, expect=[damaged])


def test_snapshots_keep_the_order_in_which_they_were_given(dump):
    paths = [dump(f"{rank}.snapshot", PoolKey(rank=rank)) for rank in (2, 0, 1)]
    ranks = [pool.snapshot.key.rank for pool in open_dataset(paths).pools]
    assert ranks == [2, 0, 1]
    assert replace(PoolKey(), rank=2) == open_dataset(paths).pools[0].snapshot.key


def test_a_state_is_named_and_belongs_to_no_pool(dump, tmp_path):
    dump("a.snapshot")
    dump("a.state")
    dataset = open_dataset([tmp_path])
    assert counts(dataset) == [(0, 0)]
    (note,) = next(file for file in dataset.files if file.kind == "state").notes
    assert "kvaudit show" in note


def test_a_state_beside_a_snapshot_is_not_looked_for(dump):
    path = dump("a.snapshot")
    dump("a.state")
    assert [file.kind for file in open_dataset([path]).files] == ["snapshot"]


@pytest.mark.parametrize("kind", ["snapshot", "state"])
def test_only_sequences_and_plans_are_expectations(dump, kind):
    snapshot_path, other = dump("a.snapshot"), dump(f"b.{kind}", RANK_1)
    with pytest.raises(SchemaMismatch, match=kind) as caught:
        open_dataset([snapshot_path], expect=[other])
    assert caught.value.path == other


def test_a_trace_is_a_plan_of_every_step_without_a_row_to_judge_by(dump, tmp_path):
    for step in (5, 9):
        dump(f"step-{step}/a.snapshot", PoolKey(step=step))
    write_trace(tmp_path / "a.plan.arrow", recorded_steps()[1:])
    dataset = open_dataset([tmp_path])
    assert counts(dataset) == [(0, 1), (0, 1)]
    assert [len(pool.plans[0].launches) for pool in dataset.pools] == [0, 0]
