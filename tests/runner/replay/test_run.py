"""A run, run again: clean ones, and each fault with the step that it is named by."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.coverage import Family
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.core.report import Verdict
from kvaudit.formats.trace_reader import open_trace
from tests.helpers.auditing import assert_all_covered
from tests.helpers.decode_run import DecodeRun
from tests.helpers.random_engine import RandomEngine
from tests.helpers.replays import (
    findings,
    first_difference,
    record_toy,
    replayed,
    rewrite_trace,
    said,
)
from tests.helpers.toy_engine import ToyEngine
from tests.runner.replay.recorded_plans import verify_launch

BACKENDS = ["reference", "cpu"]
NUM_STEPS = 310


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Requests that share a prefix, join and leave; dumps of digests every 50 steps."""
    folder = tmp_path_factory.mktemp("recorded")
    record_toy(folder, num_steps=NUM_STEPS, digests_every=50)
    return folder


@pytest.fixture
def copy(recorded: Path, tmp_path: Path) -> Path:
    shutil.copytree(recorded, tmp_path / "copy")
    return tmp_path / "copy"


def without(tag: LaunchTag, *, since: int) -> Callable[[RecordedStep], RecordedStep]:
    """The trace of an engine that left a tag's launches out from a step on."""

    def change(recorded: RecordedStep) -> RecordedStep:
        if recorded.tags is None or recorded.step < since:
            return recorded
        return replace(recorded, tags=tuple(each for each in recorded.tags if each is not tag))

    return change


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "[canary]" in record.getMessage()]


# A run that is as it was recorded


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_recorded_run_is_clean_and_all_of_it_is_covered(recorded: Path, backend: str) -> None:
    report = replayed(recorded, backend=backend)
    assert report.verdict is Verdict.CLEAN, (findings(report), report.incomplete_reasons)
    assert report.exit_code == 0
    assert_all_covered(report, Family.INDEX, Family.RECORDS, Family.BYTES)
    assert report.backend.name == backend
    assert said(report) == said(replayed(recorded))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_a_device_says_what_the_host_says(recorded: Path, copy: Path) -> None:
    rewrite_trace(copy, aliased)
    for folder in (recorded, copy):
        for environ in ({}, {"SWEEP_INTERVAL": "7"}):
            host = replayed(folder, environ=environ)
            assert said(replayed(folder, backend="cuda", environ=environ)) == said(host)


@pytest.mark.parametrize("sweep_interval", ["0", "3"])
@pytest.mark.parametrize("seed", range(12))
def test_all_that_engines_do_to_a_pool_is_clean(
    seed: int, sweep_interval: str, tmp_path: Path
) -> None:
    """Shared and copied pages, replaced ones, preempted requests, rejected drafts."""
    engine = RandomEngine(seed)
    for _ in range(seed % 3 * 6):
        engine.step()
    engine.recorder.start_trace(tmp_path, digests_every=7)
    for _ in range(40):
        engine.step()
    engine.recorder.end_trace()
    report = replayed(tmp_path, environ={"SWEEP_INTERVAL": sweep_interval})
    assert report.verdict is Verdict.CLEAN, (findings(report), report.incomplete_reasons)


def test_records_that_were_followed_by_hand_are_those_of_the_replay(tmp_path: Path) -> None:
    DecodeRun(num_requests=6, context=32).write(tmp_path, num_steps=60)
    report = replayed(tmp_path)
    assert report.verdict is Verdict.CLEAN, findings(report)
    snapshot_rows = 2 * 6 * 40
    records = report.coverage.families[Family.RECORDS]
    assert records.checked == sum(tag.checked for tag in report.tags) + snapshot_rows


def test_the_statistics_are_those_of_their_steps(
    recorded: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="kvaudit.runner.live")
    replayed(recorded)
    tokens, wanted, num_steps = 0, [], 0
    for step in open_trace(recorded / "full.plan.arrow").steps():
        if step.batch is None:
            continue
        num_steps += 1
        tokens += 2 * int(step.batch.prefix_lens.sum() + (step.write.out_cache_loc >= 0).sum())
        if num_steps % 100 == 0:
            wanted.append(
                f"[canary] step={num_steps} protected_tokens={tokens} sweep_passes=0 violations=0 "
                "launch_tags_active=2/2"
            )
    assert lines_of(caplog) == wanted
    assert len(wanted) == 3


def test_zero_turns_the_statistics_off(recorded: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kvaudit.runner.live")
    replayed(recorded, environ={"STATS_PRINT_EVERY_N_STEPS": "0"}, until=120)
    assert lines_of(caplog) == []


def test_a_replay_may_begin_and_end_in_the_middle(recorded: Path) -> None:
    shots = {step: recorded / f"step-{step:06d}" / "full.snapshot.arrow" for step in (100, 250)}
    part = replayed(recorded, start=shots[100], against=shots[250])
    assert part.verdict is Verdict.CLEAN, findings(part)
    assert [tag.kernel_runs for tag in part.tags] == [2 * 150] * 2
    cut = replayed(recorded, until=120)
    assert [tag.kernel_runs for tag in cut.tags] == [2 * 120] * 2


# Launches that did not run


@pytest.mark.parametrize("tag", [LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL])
def test_launches_dropped_from_a_step_on_are_named_by_tag_and_check(
    copy: Path, tag: LaunchTag
) -> None:
    assert rewrite_trace(copy, without(tag, since=150)) > 150
    report = replayed(copy)
    assert report.exit_code == 5
    assert set(findings(report)) == {"KV003"}
    assert f"{tag.name} did not run between the check at step 300" in findings(report)["KV003"]
    assert report.violations_total == 0


def test_a_trace_shorter_than_the_warm_up_is_checked_at_its_end(copy: Path) -> None:
    rewrite_trace(copy, without(LaunchTag.TAIL_K_FULL, since=0))
    report = replayed(copy, until=30)
    assert report.exit_code == 5
    assert "TAIL_K_FULL did not run between the check at step 30" in findings(report)["KV003"]


@pytest.mark.parametrize("interval", ["0", "1000"])
def test_sweeps_that_are_off_or_rare_are_no_stall(recorded: Path, interval: str) -> None:
    assert replayed(recorded, environ={"SWEEP_INTERVAL": interval}).exit_code == 0


def test_a_v_half_that_never_ran_is_no_stall_and_is_counted_as_unstamped(copy: Path) -> None:
    rewrite_trace(copy, without(LaunchTag.TAIL_V_FULL, since=0))
    report = replayed(copy)
    assert report.exit_code == 0, (findings(report), report.incomplete_reasons)
    records = report.coverage.families[Family.RECORDS]
    assert records.details["unstamped"] > 1000


def test_a_disabled_launch_is_named_and_leaves_the_replay_incomplete(copy: Path) -> None:
    def disable(recorded: RecordedStep) -> RecordedStep:
        if recorded.step != 77 or recorded.batch is None:
            return recorded
        return replace(recorded, verify=verify_launch(recorded, slots=[0] * 8, enable=False))

    assert rewrite_trace(copy, disable) == 1
    report = replayed(copy)
    assert report.exit_code == 5
    assert set(findings(report)) == {"KV002"}
    assert "the plan of step 77 was disabled" in findings(report)["KV002"]
    assert "its capacity of 8" in findings(report)["KV002"]
    assert report.coverage.disabled_launches == 1


# Slots that changed


def overwriting(step: int) -> Callable[[ToyEngine], None]:
    """An engine that writes a slot of the shared prefix in a step, which no request runs then."""

    def on_step(engine: ToyEngine) -> None:
        if engine.recorder.step == step:
            engine.write(engine.prefix[0] * 4 + 3, 77, 3)

    return on_step


@pytest.mark.parametrize("content", ["bytes", "digests"])
@pytest.mark.parametrize(("every", "steps"), [(50, (101, 150)), (1, (120, 120))])
def test_an_overwritten_slot_is_named_between_the_dumps_around_it(
    tmp_path: Path, every: int, steps: tuple[int, int], content: str
) -> None:
    engine = record_toy(
        tmp_path, num_steps=160, digests_every=every, on_step=overwriting(120), content=content
    )
    report = replayed(tmp_path)
    assert report.exit_code == 1
    first = first_difference(report)
    slot = engine.prefix[0] * 4 + 3
    assert (first["first_step"], first["last_step"]) == steps
    assert (first["slot"], first["position"], first["what"]) == (slot, 3, "bytes")
    holders = set(first["request_ids"])
    assert holders & {f"r{number}" for number in range(1, 60)} == holders
    assert holders
    # It is told of once, however many dumps show it.
    assert report.violations_total == 1
    [row] = report.violations
    assert (row.slot, row.step, row.tag) == (slot, steps[1], None)
    assert row.columns == ("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1")


def test_bytes_that_are_left_out_are_not_compared(tmp_path: Path) -> None:
    record_toy(tmp_path, num_steps=130, digests_every=50, on_step=overwriting(120))
    report = replayed(tmp_path, skip_bytes=True)
    assert report.exit_code == 0
    assert report.coverage.absent[Family.BYTES] == "left out"


def aliased(recorded: RecordedStep) -> RecordedStep:
    """In step 40 the last token goes to a slot of the prefix that requests share."""
    if recorded.step != 40 or recorded.write is None:
        return recorded
    slots = recorded.write.out_cache_loc.copy()
    slots[-1] = 5
    return replace(recorded, write=replace(recorded.write, out_cache_loc=slots))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_slot_given_twice_is_found_by_the_launches_of_the_next_step(
    copy: Path, backend: str
) -> None:
    assert rewrite_trace(copy, aliased) == 1
    report = replayed(copy, backend=backend, until=45)
    assert report.exit_code == 1
    first = first_difference(report)
    # The seed of the request whose slot it was is not the table's any more, either.
    assert (first["first_step"], first["last_step"], first["what"]) == (41, 41, "plan")
    row = report.violations[0]
    assert (row.slot, row.step, row.expected_position) == (5, 41, 1)
    assert FailReason.VERIFY_CHAIN_HASH_MISMATCH in row.reasons
    assert FailReason.VERIFY_POSITION_MISMATCH in row.reasons
    assert row.request_ids
    assert {row.tag for row in report.violations} == {
        LaunchTag.TAIL_K_FULL,
        LaunchTag.TAIL_V_FULL,
    }
    assert said(report) == said(replayed(copy, until=45))


def test_a_ring_that_overflows_says_what_it_lost(copy: Path) -> None:
    rewrite_trace(copy, aliased)
    report = replayed(copy, environ={"RING_CAPACITY": "3"})
    assert report.violations_total > 3
    assert "the ring holds 3 rows" in findings(report)["KV005"]
    assert len([row for row in report.violations if row.tag is not None]) == 3


def test_a_token_that_was_not_the_recorded_one_shows_in_the_next_snapshot(copy: Path) -> None:
    def other_token(recorded: RecordedStep) -> RecordedStep:
        if recorded.step != 145 or recorded.write is None:
            return recorded
        return replace(
            recorded, write=replace(recorded.write, input_ids=recorded.write.input_ids + 1)
        )

    rewrite_trace(copy, other_token)
    report = replayed(copy)
    first = first_difference(report)
    assert (first["first_step"], first["last_step"]) == (145, 150)
    assert first["column"] == "canary.k.tail token"
    assert first["replayed"] == first["recorded"] + 1
    assert report.exit_code == 1


def test_a_seed_that_the_tables_do_not_give_is_named_in_its_step(copy: Path) -> None:
    def other_seed(recorded: RecordedStep) -> RecordedStep:
        if recorded.step != 60 or recorded.write is None:
            return recorded
        seeds = recorded.write.plan.write_seed_slot_indices.copy()
        seeds[0] += 1
        plan = replace(recorded.write.plan, write_seed_slot_indices=seeds)
        return replace(recorded, write=replace(recorded.write, plan=plan))

    rewrite_trace(copy, other_seed)
    first = first_difference(replayed(copy, until=60))
    assert (first["what"], first["column"]) == ("plan", "write_seed_slot_indices")
    assert (first["first_step"], first["last_step"]) == (60, 60)
    assert first["recorded"] == first["replayed"] + 1
    assert first["request_ids"]


def test_a_step_that_is_missing_shows_in_the_tables_and_the_records(copy: Path) -> None:
    rewrite_trace(copy, lambda recorded: None if recorded.step == 147 else recorded)
    report = replayed(copy, until=150)
    assert report.exit_code == 1
    assert first_difference(report)["last_step"] == 148


def test_nothing_to_replay_is_incomplete(recorded: Path) -> None:
    report = replayed(recorded, until=0, require=None, skip_bytes=True)
    assert report.exit_code == 5
    assert any("nothing was replayed" in reason for reason in report.incomplete_reasons)
