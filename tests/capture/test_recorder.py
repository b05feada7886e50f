"""A recorder on a toy engine: what it stamps, follows and saves, judged by the audit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from kvaudit.capture import ForwardRow, RecordedPool, Recorder
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from kvaudit.formats.reader import read_file
from tests.helpers.auditing import assert_all_covered, audited, bad_columns, bad_slots
from tests.helpers.toy_engine import PAGE_SIZE, ToyEngine

STAMPED = (Family.INDEX, Family.RECORDS, Family.BYTES)


@pytest.fixture
def engine() -> ToyEngine:
    return ToyEngine(Recorder())


def assert_clean(folder: Path) -> None:
    report = audited(folder)
    assert report.verdict is Verdict.CLEAN, report.violations
    assert_all_covered(report, *STAMPED)


def sequences_in(folder: Path, name: str = "full") -> dict[str, tuple[str, int, int]]:
    """State, kv_len and tokens of each sequence of a file."""
    sequences = read_file(str(folder / f"{name}.sequences.arrow"))
    return {
        request_id: (
            str(sequences.states[row]),
            int(sequences.kv_lens[row]),
            len(sequences.tokens_of(row)),
        )
        for row, request_id in enumerate(sequences.request_ids)
    }


def test_a_running_engine_dumps_clean(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", [11, 12, 13, 14, 15, 16])
    engine.step()
    engine.join("b", [21, 22, 23])
    for _ in range(4):
        engine.step()
    files = engine.recorder.dump(tmp_path)
    assert [path.name for path in files] == ["full.snapshot.arrow", "full.sequences.arrow"]
    assert_clean(tmp_path)
    # The last sampled token has no KV yet: one token more than kv_len, and no violation.
    assert sequences_in(tmp_path) == {"a": ("running", 10, 11), "b": ("running", 6, 7)}


def test_a_prompt_may_be_run_in_chunks(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", list(range(30, 41)))
    engine.step(chunk=3)
    engine.recorder.dump(tmp_path / "prefilling")
    assert sequences_in(tmp_path / "prefilling") == {"a": ("running", 3, 11)}
    for _ in range(5):
        engine.step(chunk=3)
    engine.recorder.dump(tmp_path / "later")
    for folder in ("prefilling", "later"):
        assert_clean(tmp_path / folder)


def test_records_carry_the_steps_of_their_stamps(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", [11, 12, 13])
    engine.step()
    engine.step()
    snapshot_file, _ = engine.recorder.dump(tmp_path)
    snapshot = read_file(str(snapshot_file))
    assert snapshot.key.step == 2
    assert snapshot.evidence["stamped_step"].read().tolist() == [1, 1, 1, 2]
    assert snapshot.evidence["written_step"].read().tolist() == [1, 1, 1, 2]
    assert snapshot.real_kv_hash_mode.name == "ALL"
    assert snapshot.stamped_columns == ("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1")
    assert list(snapshot.canary) == ["k.tail", "v.tail"]
    assert snapshot.canary["k.tail"].read()[:, 0].tolist() == [11, 12, 13, 36]


@pytest.mark.parametrize("content", ["bytes", "digests"])
def test_one_flipped_bit_is_one_slot_and_one_column(
    engine: ToyEngine, tmp_path: Path, content: str
) -> None:
    engine.join("a", [11, 12, 13, 14, 15, 16])
    engine.step()
    slot = engine.slots("a", 6)[5]
    value = engine.kv[1][1].view(torch.int16)[slot // PAGE_SIZE, slot % PAGE_SIZE, 1, 2]
    value ^= 1 << 4
    engine.recorder.dump(tmp_path, content=content)
    report = audited(tmp_path)
    assert report.verdict is Verdict.VIOLATIONS
    assert bad_slots(report) == {slot}
    assert bad_columns(report) == {"kv.v.1"}


def test_a_write_behind_the_recorders_back_is_a_violation(
    engine: ToyEngine, tmp_path: Path
) -> None:
    engine.join("a", [11, 12, 13, 14, 15, 16])
    engine.step()
    slot = engine.slots("a", 6)[1]
    engine.write(slot, token=99, position=1)
    engine.recorder.dump(tmp_path)
    assert bad_slots(audited(tmp_path)) == {slot}


def test_a_wrong_table_is_a_violation(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", list(range(11, 20)))
    engine.step()
    engine.tables["a"][0], engine.tables["a"][1] = engine.tables["a"][1], engine.tables["a"][0]
    engine.recorder.update("a", slots=engine.slots("a", 9))
    engine.recorder.dump(tmp_path)
    assert bad_slots(audited(tmp_path)) >= set(engine.slots("a", 8))


def test_a_shared_prefix_is_stamped_once(engine: ToyEngine, tmp_path: Path) -> None:
    prefix = [1, 2, 3, 4, 5, 6, 7, 8]
    engine.join("a", [*prefix, 11, 12])
    engine.step()
    stamped = engine.recorder.num_stamped
    engine.join("b", [*prefix, 21], shared_pages=engine.tables["a"][:2])
    engine.step()
    assert engine.recorder.num_stamped == stamped + 2
    engine.recorder.dump(tmp_path)
    assert_clean(tmp_path)


def test_a_block_may_be_replaced_by_an_equal_one(engine: ToyEngine, tmp_path: Path) -> None:
    for request_id in ("a", "b"):
        engine.join(request_id, [1, 2, 3, 4, 5])
    engine.step()
    duplicate = engine.tables["b"][0]
    engine.tables["b"][0] = engine.tables["a"][0]
    engine.free_pages.append(duplicate)
    engine.recorder.update("b", slots=engine.slots("b", 5))
    for _ in range(4):
        engine.step()
    engine.recorder.dump(tmp_path)
    assert_clean(tmp_path)


def test_a_prefix_from_before_the_recording_counts_as_unstamped(
    engine: ToyEngine, tmp_path: Path
) -> None:
    for position in range(PAGE_SIZE):
        engine.write(PAGE_SIZE * 3 + position, position + 1, position)
    engine.join("a", [1, 2, 3, 4, 5], shared_pages=[3])
    engine.step()
    engine.recorder.dump(tmp_path)
    report = audited(tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.RECORDS].details["unstamped"] == 2 * PAGE_SIZE


def test_copied_slots_keep_their_stamps(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", [1, 2, 3, 4, 5, 6])
    engine.step()
    engine.copy_page("a", 0)
    engine.copy_page("a", 1)
    engine.step()
    snapshot_file, _ = engine.recorder.dump(tmp_path)
    assert_clean(tmp_path)
    snapshot = read_file(str(snapshot_file))
    assert set(snapshot.slots.tolist()) == set(engine.slots("a", 7))
    assert snapshot.evidence["stamped_step"].read().max() == 2


def test_finished_requests_stay_until_their_slots_are_given_away(
    engine: ToyEngine, tmp_path: Path
) -> None:
    engine.join("a", [1, 2, 3, 4, 5, 6])
    engine.step()
    pages = engine.leave("a", kept_pages=1)
    engine.recorder.dump(tmp_path / "finished")
    assert sequences_in(tmp_path / "finished") == {"a": ("finished", 6, 7)}
    engine.join("b", [21, 22])
    engine.step()
    files = engine.recorder.dump(tmp_path / "given-away")
    assert [path.name for path in files] == [
        "full.snapshot.arrow",
        "full.sequences.arrow",
        "full.finished-000001.snapshot.arrow",
        "full.finished-000001.sequences.arrow",
    ]
    folder = tmp_path / "given-away"
    assert sequences_in(folder) == {"b": ("running", 2, 3), "a": ("cached", 4, 7)}
    assert sequences_in(folder, "full.finished-000001") == {"a": ("finished", 6, 7)}
    engine.join("c", [1, 2, 3, 4, 31], shared_pages=pages)
    engine.step()
    engine.recorder.dump(tmp_path / "later")
    for name in ("finished", "given-away", "later"):
        assert_clean(tmp_path / name)


def test_saved_rows_hold_the_bytes_as_they_were(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", [1, 2, 3])
    engine.step()
    before = engine.recorder.dump(tmp_path / "before")[0]
    engine.leave("a")
    engine.join("b", [21, 22, 23])
    engine.step()
    engine.recorder.dump(tmp_path / "after")
    was = read_file(str(before))
    saved = read_file(str(tmp_path / "after" / "full.finished-000001.snapshot.arrow"))
    assert saved.slots.tolist() == was.slots.tolist()
    for name, column in was.kv.items():
        np.testing.assert_array_equal(saved.kv[name].read_rows(0, 3), column.read_rows(0, 3))


def saved_requests(folder: Path) -> list[str]:
    """The requests of each pair of files that holds what was given away, in the pairs' order."""
    files = sorted(folder.glob("*.finished-*.sequences.arrow"))
    return ["".join(read_file(str(path)).request_ids) for path in files]


def engine_with_free_pages_of(engine: ToyEngine, *request_ids: str) -> None:
    """One request runs, `c`; the others finished, and their pages are the next to be given."""
    for request_id in (*request_ids, "c"):
        engine.join(request_id, [1, 2, 3])
    engine.step()
    for request_id in reversed(request_ids):
        engine.leave(request_id)


def test_rows_saved_before_a_copy_do_not_pass_for_the_pool_itself(
    engine: ToyEngine, tmp_path: Path
) -> None:
    engine_with_free_pages_of(engine, "a")
    engine.copy_page("c", 0)
    engine.recorder.dump(tmp_path)
    assert saved_requests(tmp_path) == ["a"]
    assert_clean(tmp_path)


def test_rows_saved_twice_in_one_step_stand_in_files_of_their_own(
    engine: ToyEngine, tmp_path: Path
) -> None:
    engine_with_free_pages_of(engine, "a", "b")
    engine.copy_page("c", 0)
    engine.join("d", [21, 22])
    engine.step()
    engine.recorder.dump(tmp_path)
    assert saved_requests(tmp_path) == ["a", "b"]
    assert_clean(tmp_path)


def test_what_was_given_away_is_in_one_dump_alone(engine: ToyEngine, tmp_path: Path) -> None:
    engine_with_free_pages_of(engine, "a", "b")
    engine.copy_page("c", 0)
    engine.recorder.dump(tmp_path / "of-one-request", request_ids=["c"])
    engine.recorder.dump(tmp_path / "first")
    engine.recorder.dump(tmp_path / "second")
    engine.join("d", [21, 22])
    engine.step()
    engine.recorder.dump(tmp_path / "first")
    for folder, saved in (("of-one-request", []), ("first", ["a", "b"]), ("second", [])):
        assert saved_requests(tmp_path / folder) == saved


def test_a_dump_stays_in_its_folder_whatever_the_engine_is_called(tmp_path: Path) -> None:
    engine = ToyEngine(Recorder(instance="../out/.side\\[x"))
    engine.join("a", [1, 2, 3])
    engine.step()
    files = engine.recorder.dump(tmp_path / "dump")
    assert {path.parent for path in files} == {tmp_path / "dump"}
    assert [path.name for path in tmp_path.iterdir()] == ["dump"]
    assert read_file(str(files[0])).key.instance == "../out/.side\\[x"
    assert_clean(tmp_path / "dump")


def test_saved_rows_become_digests_in_a_dump_of_digests(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", [1, 2, 3])
    engine.step()
    engine.leave("a")
    engine.join("b", [21, 22, 23])
    engine.step()
    for path in engine.recorder.dump(tmp_path, content="digests")[::2]:
        snapshot = read_file(str(path))
        assert not snapshot.kv
        assert len(snapshot.digests) == 4
    assert_clean(tmp_path)


def test_a_recorder_of_digests_never_keeps_bytes(tmp_path: Path) -> None:
    engine = ToyEngine(Recorder(content="digests"))
    engine.join("a", [1, 2, 3])
    engine.step()
    engine.leave("a")
    engine.join("b", [21, 22, 23])
    engine.step()
    for path in engine.recorder.dump(tmp_path)[::2]:
        assert not read_file(str(path)).kv
    assert_clean(tmp_path)


def test_a_preempted_request_may_come_back(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", [1, 2, 3, 4, 5, 6])
    engine.step()
    text = list(engine.tokens["a"])
    engine.leave("a")
    engine.join("b", [21, 22])
    engine.step()
    engine.join("a", text)
    engine.step()
    engine.recorder.dump(tmp_path)
    assert_clean(tmp_path)


def test_one_request_can_be_dumped_alone(engine: ToyEngine, tmp_path: Path) -> None:
    for request_id in ("a", "b"):
        engine.join(request_id, [1, 2, 3])
    engine.step()
    snapshot_file, _ = engine.recorder.dump(tmp_path, request_ids=["b"])
    assert list(sequences_in(tmp_path)) == ["b"]
    assert read_file(str(snapshot_file)).slots.tolist() == sorted(engine.slots("b", 3))
    assert_clean(tmp_path)


def test_a_dump_within_a_step_says_so(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", [1, 2, 3])
    engine.step()
    row = ForwardRow(request_id="a", positions=range(3, 4), tokens=[6], slots=engine.slots("a", 4))
    engine.recorder.before_forward([row])
    snapshot_file, _ = engine.recorder.dump(tmp_path)
    assert read_file(str(snapshot_file)).at == "mid_step"


def test_tokens_that_nobody_named_are_unknown(engine: ToyEngine, tmp_path: Path) -> None:
    engine.join("a", [1, 2, 3, 4])
    engine.step()
    slots = [*engine.slots("a", 4), 60]
    engine.recorder.before_forward(
        [ForwardRow(request_id="b", positions=range(4, 5), tokens=[9], slots=slots)]
    )
    engine.write(60, 9, 4)
    engine.recorder.after_forward()
    engine.recorder.dump(tmp_path, request_ids=["b"])
    sequences = read_file(str(tmp_path / "full.sequences.arrow"))
    assert sequences.tokens_of(0).tolist() == [-1, -1, -1, -1, 9]
    assert_clean(tmp_path)


def window_engine() -> tuple[Recorder, list[torch.Tensor]]:
    """A full pool and a ring of four positions, both of one layer."""
    recorder = Recorder(instance="decode-0", rank=2, metadata={"engine": "toy"})
    kv = [torch.zeros(16, 8), torch.zeros(8, 8)]
    recorder.attach(
        [
            RecordedPool(kv=[(kv[0], kv[0] + 1)], layout="slot dim", page_size=4),
            RecordedPool(
                name="SWA",
                kv=[(kv[1], kv[1] + 1)],
                layout="slot dim",
                page_size=4,
                pool_kind="SWA",
                window=4,
                group="sliding",
            ),
        ]
    )
    return recorder, kv


def test_pools_have_slots_of_their_own_and_a_window_forgets(tmp_path: Path) -> None:
    recorder, kv = window_engine()
    steps = [range(3), range(3, 4), range(4, 5), range(5, 11)]
    for positions in steps:
        kept = range(max(0, positions.stop - 4), positions.stop)
        slots = {"FULL": range(1, positions.stop + 1), "SWA": [4 + p % 4 for p in kept]}
        tokens = [100 + position for position in positions]
        recorder.before_forward(
            [ForwardRow(request_id="a", positions=positions, tokens=tokens, slots=slots)]
        )
        for position in positions:
            kv[0][1 + position] = kv[1][4 + position % 4] = position
        recorder.after_forward()
    files = recorder.dump(tmp_path)
    assert [path.name for path in files[::2]] == [
        "decode-0.full.r2.snapshot.arrow",
        "decode-0.sliding.swa.r2.snapshot.arrow",
    ]
    swa, sequences = (read_file(str(path)) for path in files[2:])
    assert (swa.window, swa.metadata["engine"]) == (4, "toy")
    assert swa.slots.tolist() == [4, 5, 6, 7]
    assert sequences.start_positions.tolist() == [7]
    assert sequences.slots_of(0).tolist() == [7, 4, 5, 6]
    assert_clean(tmp_path)
