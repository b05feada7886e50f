"""A recorder's trace of a run: what it writes, and that the run can be had from it again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kvaudit.capture import ForwardRow, RecordedPool, Recorder
from kvaudit.capture import run_trace as run_trace_module
from kvaudit.capture.pool_trace import PoolTrace
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from kvaudit.errors import ConfigError, FileUnwritable
from kvaudit.formats import trace_writer
from kvaudit.formats.reader import read_file
from kvaudit.formats.trace_reader import open_trace
from tests.helpers.auditing import assert_all_covered, audited
from tests.helpers.random_engine import RandomEngine
from tests.helpers.rederived import assert_trace_agrees
from tests.helpers.toy_engine import ToyEngine, page_slots

SEEDS = range(16)
NUM_STEPS = 40


@pytest.fixture
def engine() -> ToyEngine:
    return ToyEngine(Recorder(metadata={"engine": "toy"}))


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.arrow"))


def test_a_trace_lies_between_two_snapshots(engine: ToyEngine, tmp_path: Path) -> None:
    engine.recorder.start_trace(tmp_path)
    assert engine.recorder.is_tracing
    engine.join("a", [11, 12, 13, 14, 15])
    for _ in range(3):
        engine.step()
    files = engine.recorder.end_trace()
    assert not engine.recorder.is_tracing
    assert names(tmp_path) == [
        "full.plan.arrow",
        "full.state.arrow",
        "step-000000/full.sequences.arrow",
        "step-000000/full.snapshot.arrow",
        "step-000003/full.sequences.arrow",
        "step-000003/full.snapshot.arrow",
    ]
    assert {path.relative_to(tmp_path).as_posix() for path in files} == {
        name for name in names(tmp_path) if "step-000000" not in name
    }
    rederived, steps = assert_trace_agrees(tmp_path)
    assert [step.step for step in steps] == [1, 2, 3]
    assert rederived.events == Counter(write=7)
    trace = open_trace(tmp_path / "full.plan.arrow")
    assert trace.file.metadata["engine"] == "toy"
    report = audited(tmp_path)
    assert report.verdict is Verdict.CLEAN, report.violations
    assert_all_covered(report, Family.INDEX, Family.RECORDS, Family.BYTES)


def test_every_write_is_in_the_trace_exactly_once(engine: ToyEngine, tmp_path: Path) -> None:
    engine.recorder.start_trace(tmp_path)
    wanted = []
    for number in range(6):
        engine.join(f"r{number}", list(range(10 * number, 10 * number + 5 + number)))
        before = {name: list(tokens) for name, tokens in engine.tokens.items()}
        computed = dict(engine.computed)
        engine.step(chunk=4)
        for name, tokens in before.items():
            stop = engine.computed[name]
            slots = engine.slots(name, stop)
            wanted += [
                (engine.recorder.step, name, position, tokens[position], slots[position])
                for position in range(computed[name], stop)
            ]
    engine.recorder.end_trace()
    found = []
    for recorded in open_trace(tmp_path / "full.plan.arrow").steps():
        write = recorded.write
        for idx, name in enumerate(write.request_ids):
            entries = write.entries_of(idx)
            columns = (write.positions, write.input_ids, write.out_cache_loc)
            rows = zip(*(column[entries].tolist() for column in columns), strict=True)
            found += [(recorded.step, name, *row) for row in rows]
    assert sorted(found) == sorted(wanted)
    assert len(found) > 40


def test_shared_and_copied_pages_are_edits_and_copies(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", list(range(30, 41)))
    engine.step()
    engine.recorder.start_trace(tmp_path, digests_every=1)
    engine.copy_page("a", 1)
    engine.step()
    shared = engine.leave("a", kept_pages=2)
    engine.join("b", list(range(30, 44)), shared_pages=shared)
    for _ in range(2):
        engine.step()
    engine.recorder.end_trace()
    rederived, steps = assert_trace_agrees(tmp_path)
    assert rederived.events["copy"] == 4
    assert rederived.events["free"] == 1
    shared_edit = next(step for step in steps if "b" in (step.write.request_ids or ()))
    (edit,) = list(shared_edit.edits)
    assert len(edit[2]) == 8
    assert shared_edit.batch.prefix_lens.tolist() == [8]


def test_slots_that_no_request_has_yet_are_in_the_first_snapshot(
    engine: ToyEngine, tmp_path: Path
) -> None:
    """A fork copies before the child has run."""
    engine.join("a", list(range(30, 34)))
    engine.step()
    page = engine.free_pages.pop()
    engine.recorder.copy_slots(page_slots(engine.tables["a"][0]), page_slots(page))
    for halves in engine.kv:
        for tensor in halves:
            tensor[page] = tensor[engine.tables["a"][0]]
    engine.recorder.start_trace(tmp_path, digests_every=1)
    engine.join("b", list(range(30, 40)), shared_pages=[page])
    engine.step()
    engine.recorder.end_trace()
    first = read_file(tmp_path / "step-000001" / "full.snapshot.arrow")
    assert set(page_slots(page)) <= set(first.slots)
    rederived, _ = assert_trace_agrees(tmp_path)
    assert rederived.num_verified == 4 + 4
    assert audited(tmp_path).verdict is Verdict.CLEAN


def test_several_pools_have_a_trace_each(tmp_path: Path) -> None:
    engine = ToyEngine(Recorder())
    small = RecordedPool(
        name="draft", kv=engine.kv[:1], layout="page slot head dim", page_size=4, group="draft"
    )
    engine.recorder.attach([engine.pool(), small])
    engine.recorder.start_trace(tmp_path)
    for position in range(3):
        engine.recorder.before_forward(
            [
                ForwardRow(
                    request_id="a",
                    positions=range(position, position + 1),
                    tokens=[7],
                    slots={
                        "FULL": list(range(4, 5 + position)),
                        "draft": list(range(40, 41 + position)),
                    },
                )
            ]
        )
        engine.recorder.after_forward()
    engine.recorder.update("a", slots={"FULL": [4, 5, 16], "draft": [40, 41, 42]})
    engine.recorder.copy_slots({"FULL": [6]}, {"FULL": [16]})
    engine.recorder.forget("a")
    engine.recorder.end_trace()
    plans = sorted(tmp_path.glob("*.plan.arrow"))
    assert [path.name for path in plans] == ["draft.draft.plan.arrow", "full.plan.arrow"]
    draft, full = ([*open_trace(path).steps()] for path in plans)
    assert [step.write.out_cache_loc.tolist() for step in draft[:3]] == [[40], [41], [42]]
    assert [len(step.copies.src) for step in draft] == [0, 0, 0, 0]
    assert [len(step.copies.src) for step in full] == [0, 0, 0, 1, 0]
    assert [len(step.edits.slots) for step in full] == [0, 0, 0, 1, 0]
    assert [step.freed.lens.tolist() for step in (draft[-1], full[-1])] == [[3], [3]]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_run_of_a_random_engine_can_be_had_again_from_its_trace(
    seed: int, tmp_path: Path
) -> None:
    engine = RandomEngine(seed)
    for _ in range(seed % 3 * 6):
        engine.step()
    engine.recorder.start_trace(tmp_path, digests_every=7)
    for _ in range(NUM_STEPS):
        engine.step()
    engine.recorder.end_trace()
    rederived, _ = assert_trace_agrees(tmp_path)
    assert rederived.num_verified > 0
    state = read_file(tmp_path / "full.state.arrow")
    assert isinstance(state, CanaryState)
    assert set(state.slot_run_counters.values()) == {rederived.events["write"]}


def test_the_random_engines_do_all_that_a_trace_tells_of(tmp_path: Path) -> None:
    events: Counter[str] = Counter()
    for seed in (4, 5, 13):
        engine = RandomEngine(seed)
        engine.recorder.start_trace(tmp_path / str(seed))
        for _ in range(NUM_STEPS):
            engine.step()
        engine.recorder.end_trace()
        events += assert_trace_agrees(tmp_path / str(seed))[0].events
    assert events.keys() == {"write", "edit", "free", "copy"}


def test_the_last_snapshot_takes_the_place_of_digests_of_its_step(
    engine: ToyEngine, tmp_path: Path
) -> None:
    engine.recorder.start_trace(tmp_path, digests_every=2)
    engine.join("a", [11, 12, 13])
    for _ in range(4):
        engine.step()
    engine.leave("a")
    engine.recorder.end_trace()
    snapshots = {
        path.parent.name: read_file(path) for path in tmp_path.glob("step-*/full.snapshot.arrow")
    }
    assert {name: (bool(it.kv), bool(it.digests)) for name, it in snapshots.items()} == {
        "step-000000": (True, False),
        "step-000002": (False, True),
        "step-000004": (True, False),
    }
    _, steps = assert_trace_agrees(tmp_path)
    # Where the run ended is a row without a write.
    assert [(step.step, step.write is None) for step in steps][-2:] == [(4, False), (4, True)]


def test_a_trace_is_begun_and_ended_once_and_between_steps(
    engine: ToyEngine, tmp_path: Path
) -> None:
    recorder = engine.recorder
    with pytest.raises(ConfigError, match="no trace runs"):
        recorder.end_trace()
    with pytest.raises(ConfigError, match="no pool"):
        Recorder().start_trace(tmp_path)
    with pytest.raises(ConfigError, match="digests_every"):
        recorder.start_trace(tmp_path, digests_every=-1)
    row = ForwardRow(request_id="a", positions=range(1), tokens=[1], slots=[4])
    recorder.before_forward([row])
    with pytest.raises(ConfigError, match="a forward is running"):
        recorder.start_trace(tmp_path)
    recorder.after_forward()
    assert names(tmp_path) == []
    recorder.start_trace(tmp_path)
    with pytest.raises(ConfigError, match="a trace runs") as caught:
        recorder.start_trace(tmp_path)
    assert caught.value.hint
    with pytest.raises(ConfigError, match="trace"):
        recorder.attach([engine.pool()])
    recorder.end_trace()
    recorder.attach([engine.pool()])


def test_an_abandoned_trace_leaves_its_first_snapshot_alone(
    engine: ToyEngine, tmp_path: Path
) -> None:
    engine.recorder.abandon_trace()
    engine.recorder.start_trace(tmp_path)
    engine.join("a", [11, 12])
    engine.step()
    engine.recorder.abandon_trace()
    assert not engine.recorder.is_tracing
    assert {name.split("/")[0] for name in names(tmp_path)} == {"step-000000"}
    engine.step()


def test_a_trace_that_cannot_be_written_ends_and_the_recorder_goes_on(
    engine: ToyEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    engine.recorder.start_trace(tmp_path / "trace")
    engine.join("a", [11, 12])
    engine.step()
    monkeypatch.setattr(trace_writer, "MAX_BATCH_STEPS", 1)
    monkeypatch.setattr(trace_writer.pa, "record_batch", no_room)
    with pytest.raises(FileUnwritable, match="no space left") as caught:
        engine.step()
    assert caught.value.path == str(tmp_path / "trace" / "full.plan.arrow")
    monkeypatch.undo()
    assert not engine.recorder.is_tracing
    assert list((tmp_path / "trace").glob("*.arrow")) == []
    # The step itself was stamped.
    engine.computed["a"] += 1
    engine.tokens["a"].append(7)
    engine.recorder.update("a", known_tokens=engine.tokens["a"])
    engine.step()
    engine.recorder.dump(tmp_path / "dump")
    assert audited(tmp_path / "dump").verdict is Verdict.CLEAN


def test_a_folder_that_cannot_be_made_is_an_error_and_no_trace_runs(
    engine: ToyEngine, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(FileUnwritable) as caught:
        engine.recorder.start_trace(tmp_path / "taken")
    assert str(tmp_path / "taken") in str(caught.value)
    assert not engine.recorder.is_tracing


def test_what_was_opened_is_let_go_of_where_a_later_pool_fails(
    engine: ToyEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[PoolTrace] = []
    left: list[PoolTrace] = []

    def second_fails(*args: object, **kwargs: object) -> PoolTrace:
        if made:
            raise FileUnwritable("no room")
        made.append(PoolTrace(*args, **kwargs))
        monkeypatch.setattr(made[0], "abandon", lambda: left.append(made[0]))
        return made[0]

    monkeypatch.setattr(run_trace_module, "PoolTrace", second_fails)
    other = RecordedPool(
        name="other", kv=engine.kv, layout="page slot head dim", page_size=4, group="b"
    )
    engine.recorder.attach([engine.pool(), other])
    with pytest.raises(FileUnwritable, match="no room"):
        engine.recorder.start_trace(tmp_path)
    assert left == made
    PoolTrace.abandon(made[0])


def test_memory_does_not_grow_with_the_steps(engine: ToyEngine, tmp_path: Path) -> None:
    import tracemalloc

    recorder = engine.recorder
    recorder.start_trace(tmp_path)
    slots = list(range(4, 68))

    def run(num_steps: int) -> int:
        for _ in range(num_steps):
            recorder.before_forward(
                [ForwardRow(request_id="a", positions=range(64), tokens=slots, slots=slots)]
            )
            for trace in recorder._trace._trace._pools.values():
                trace.after_forward(recorder.step)
            recorder.forget("a")
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        grown = -run(1100) + run(2100)
    finally:
        tracemalloc.stop()
    recorder.end_trace()
    rows = open_trace(tmp_path / "full.plan.arrow").extent.num_rows
    # The end of the last request is a row too.
    assert rows == 3200 + 1
    # A step takes over 2 KB.
    assert grown < 500_000
