"""A canary beside any engine: silent as long as nothing is wrong, and loud once something is."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from kvaudit.capture import RecordedPool
from kvaudit.capture.live_canary import LiveCanary
from kvaudit.constants import RealKvHashMode
from kvaudit.core.report import Verdict
from kvaudit.errors import CanaryStalledError, CanaryViolationError, ConfigError
from kvaudit.formats.reader import read_file
from kvaudit.runner.live import CanaryConfig, CanaryEndpoint, CanaryMode
from tests.helpers.auditing import audited, bad_slots
from tests.helpers.random_engine import RandomEngine
from tests.helpers.toy_engine import ToyEngine
from tests.helpers.watched_engine import BesideEngine

SEEDS = range(16)
NUM_STEPS = 40
HASHED_DIM = 8
PROMPT = [11, 12, 13, 14, 15, 16]


def _config(mode: CanaryMode = CanaryMode.RAISE, **changes: Any) -> CanaryConfig:
    return CanaryConfig(**{"mode": mode, "violation_check_every_n_steps": 1, **changes})


def _run(engine: RandomEngine) -> None:
    for _ in range(NUM_STEPS):
        engine.step()


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_an_engine_does_nothing_is_raised_until_a_record_changes(seed: int) -> None:
    asserts = {"enable_write_input_assert": True, "enable_verify_token_assert": True}
    canary = BesideEngine(_config(health_check_warm_up_steps=3, **asserts))
    engine = RandomEngine(seed, canary)
    _run(engine)
    canary.finish()
    assert canary.state.violation_write_index == 0
    assert sum(canary.state.slot_run_counters.values()) > NUM_STEPS
    # A verify and a write for each tag and step.
    assert set(canary.state.kernel_run_counters.values()) == {2 * canary.step}
    for slot in engine.live_slots():
        canary.overwrite(slot)
    with pytest.raises(CanaryViolationError, match="verify_position"):
        _run(engine)


def test_the_seeds_do_all_that_engines_do() -> None:
    events: Counter[str] = Counter()
    for seed in SEEDS:
        engine = RandomEngine(seed, BesideEngine(_config()))
        _run(engine)
        events += engine.events
    expected = {"join", "leave", "preempt", "fork", "chunk", "reject", "replace", "reuse"}
    assert events.keys() == expected


def _engine(canary: BesideEngine, **engine: Any) -> ToyEngine:
    toy = ToyEngine(canary, dim=HASHED_DIM, **engine)
    toy.join("a", PROMPT)
    toy.join("b", [21, 22, 23])
    return toy


def _serve(engine: ToyEngine, num_steps: int) -> None:
    for _ in range(num_steps):
        engine.step()


def test_a_changed_record_is_told_of_in_the_frozen_lines_and_serving_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    canary = BesideEngine(_config(CanaryMode.LOG))
    engine = _engine(canary)
    _serve(engine, 3)
    slot = engine.slots("a", 5)[2]
    canary.overwrite(slot)
    with caplog.at_level(logging.WARNING):
        _serve(engine, 3)
        canary.finish()
    first_lines = {record.message.splitlines()[0] for record in caplog.records}
    prefix = "kv_canary violation: launch_tag=TAIL_K_FULL fail_reason="
    # A changed record breaks the link of the slot behind it, too.
    successor = engine.slots("a", 5)[3]
    assert {line.split(" position=")[0] for line in first_lines} == {
        f"{prefix}verify_position slot_idx={slot}",
        f"{prefix}verify_chain_hash slot_idx={successor}",
    }
    assert canary.step == 6


@pytest.mark.parametrize("mode", [RealKvHashMode.PARTIAL, RealKvHashMode.ALL])
def test_a_late_write_into_a_slot_is_raised_where_bytes_are_hashed(mode: RealKvHashMode) -> None:
    canary = BesideEngine(_config(real_kv_hash_mode=mode))
    engine = _engine(canary)
    _serve(engine, 3)
    engine.write(engine.slots("b", 3)[1], token=99, position=50)
    with pytest.raises(CanaryViolationError, match="verify_real_kv_hash"):
        _serve(engine, 3)


def test_records_go_with_copied_pages_and_a_dump_names_the_slot_that_changed(
    tmp_path: Path,
) -> None:
    config = _config(CanaryMode.DUMP, real_kv_hash_mode=RealKvHashMode.ALL)
    canary = BesideEngine(config, dumps=tmp_path, metadata={"model": "toy"})
    engine = _engine(canary)
    _serve(engine, 3)
    engine.copy_page("a", 0)
    _serve(engine, 2)
    assert canary.state.violation_write_index == 0
    slot = engine.slots("a", 5)[1]
    engine.write(slot, token=99, position=50)
    _serve(engine, 4)
    assert len(engine.tokens["a"]) == len(PROMPT) + 9
    (folder,) = tmp_path.iterdir()
    report = audited(folder)
    assert report.verdict is Verdict.VIOLATIONS
    assert bad_slots(report) == {slot}
    assert {row.request_ids for row in report.violations} == {("a",)}
    snapshot = read_file(str(folder / "full.snapshot.arrow"))
    assert (snapshot.metadata["model"], snapshot.metadata["cause"]) == ("toy", "violation")
    assert snapshot.key.step == int(folder.name.removeprefix("step-"))
    written = snapshot.evidence["written_step"].read()
    assert set(written.tolist()) <= set(range(-1, snapshot.key.step + 1))
    state = read_file(str(folder / "full.state.arrow"))
    assert {int(row[1]) for row in state.ring} == {slot}


def test_a_slot_of_a_request_that_is_done_is_explained_too(tmp_path: Path) -> None:
    """The host learns of the last step's violation when the request has gone already."""
    config = _config(
        CanaryMode.DUMP, real_kv_hash_mode=RealKvHashMode.ALL, violation_check_every_n_steps=3
    )
    canary = BesideEngine(config, dumps=tmp_path)
    engine = _engine(canary)
    engine.step()
    slot = engine.slots("a", 5)[2]
    engine.write(slot, token=99, position=50)
    engine.step()
    engine.leave("a", kept_pages=2)
    _serve(engine, 5)
    (folder,) = tmp_path.iterdir()
    report = audited(folder)
    assert bad_slots(report) == {slot}
    assert {row.request_ids for row in report.violations} == {("a",)}
    assert read_file(str(folder / "full.sequences.arrow")).states == ["finished"]


def test_a_trigger_dumps_the_whole_batch_and_it_is_clean(tmp_path: Path) -> None:
    turns = iter([False, False, True, False, False])
    config = _config(CanaryMode.DUMP, real_kv_hash_mode=RealKvHashMode.ALL)
    canary = BesideEngine(config, dumps=tmp_path, triggered=lambda: next(turns))
    _serve(_engine(canary), 5)
    (folder,) = tmp_path.iterdir()
    assert folder.name == "step-000003"
    sequences = read_file(str(folder / "full.sequences.arrow"))
    assert (sequences.request_ids, sequences.kv_lens.tolist()) == (["a", "b"], [8, 5])
    assert audited(folder).verdict is Verdict.CLEAN


def test_launches_that_are_dropped_raise_a_stall_that_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = {"health_check_every_n_steps": 4, "health_check_warm_up_steps": 4}
    canary = BesideEngine(_config(CanaryMode.LOG, **checks))
    engine = _engine(canary)
    _serve(engine, 6)
    launch = CanaryEndpoint.launch

    def dropped(endpoint: CanaryEndpoint, step: Any) -> None:
        if endpoint.tag.name != "HEAD_V_FULL":
            launch(endpoint, step)

    monkeypatch.setattr(CanaryEndpoint, "launch", dropped)
    with pytest.raises(CanaryStalledError) as stalled:
        _serve(engine, 10)
    assert (stalled.value.tags, stalled.value.step) == (("HEAD_V_FULL",), 12)


def test_a_forward_without_requests_is_no_step() -> None:
    canary = BesideEngine(_config())
    ToyEngine(canary).step()
    canary.after_forward()
    canary.finish()
    assert canary.step == 0


def test_mode_none_leaves_everything_alone() -> None:
    canary = BesideEngine(CanaryConfig())
    engine = _engine(canary)
    _serve(engine, 3)
    engine.copy_page("a", 0)
    engine.leave("a")
    canary.finish()
    assert (canary.pools, canary.step, canary.read_states()) == ({}, 0, {})


def test_what_cannot_be_watched_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="mode is dump"):
        LiveCanary(_config(CanaryMode.DUMP))
    canary = LiveCanary(_config())
    with pytest.raises(ConfigError, match=r"^pools: "):
        canary.attach([], max_requests=1)
    kv = [torch.zeros(4, 4, 2, 8)]
    pool = RecordedPool(kv=kv, layout="page slot head dim", page_size=4, reserved_slots="none")
    with pytest.raises(ConfigError, match=r"^reserved_slots of pool FULL"):
        canary.attach([pool], max_requests=1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_beside_a_device_nothing_differs(tmp_path: Path) -> None:
    config = _config(
        CanaryMode.DUMP, real_kv_hash_mode=RealKvHashMode.ALL, health_check_warm_up_steps=3
    )
    counters = []
    for device in ("cpu", "cuda"):
        canary = BesideEngine(config, dumps=tmp_path / device)
        engine = _engine(canary, device=device)
        _serve(engine, 3)
        engine.copy_page("a", 0)
        _serve(engine, 2)
        slot = engine.slots("a", 5)[1]
        engine.write(slot, token=99, position=50)
        _serve(engine, 4)
        canary.finish()
        counters.append((canary.state.slot_run_counters, canary.state.violation_write_index))
        (folder,) = (tmp_path / device).iterdir()
        assert bad_slots(audited(folder)) == {slot}
    assert counters[0] == counters[1]
