"""A canary beside transformers' continuous batching, on models that serve in no time."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from examples.capture_smollm2 import make_manager, serve
from kvaudit.capture.dump_triggers import TouchedFile
from kvaudit.capture.live_canary import LiveCanary
from kvaudit.capture.live_transformers import watch
from kvaudit.capture.transformers_cache import recorded_pools, request_slots
from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.report import Verdict
from kvaudit.errors import CanaryStalledError, CanaryViolationError, ConfigError, KvauditError
from kvaudit.formats.reader import read_file
from kvaudit.runner.live import CanaryConfig, CanaryEndpoint, CanaryMode
from tests.helpers.auditing import audited, bad_columns, bad_slots
from tests.helpers.tiny_model import TINY_PROMPTS, TINY_TOKENS, sliding_model, tiny_model

MODELS = {"full": tiny_model, "sliding": sliding_model}
EVERY_STEP = {"violation_check_every_n_steps": 1}
# Twice the first prompt's whole pages, so that they are shared.
SHARING = {**TINY_PROMPTS, "d": [*TINY_PROMPTS["a"][:32], 5, 6]}
SHARING_TOKENS = {**TINY_TOKENS, "d": 14}


def _config(mode: CanaryMode = CanaryMode.RAISE, **changes: Any) -> CanaryConfig:
    return CanaryConfig(mode=mode, **{**EVERY_STEP, **changes})


class Fault:
    """Flips a bit of K of a request's position, once; keeps the slot.

    Args:
        request_id: the request.
        position: the position.
        step: the step at whose end it is flipped; None = that in which the request is done.
    """

    def __init__(self, request_id: str, position: int, *, step: int | None) -> None:
        self.request_id, self.position, self.step = request_id, position, step
        self.cache: Any = None
        self.slot = -1
        self.is_done = False

    def __call__(self, canary: LiveCanary) -> None:
        allocator = self.cache.cache_allocators["full_attention"]
        is_running = self.request_id in allocator.block_table
        if is_running:
            self.slot = int(request_slots(allocator, self.request_id, self.position + 1)[-1])
        is_turn = canary.step == self.step if self.step else self.slot >= 0 and not is_running
        if is_turn and not self.is_done:
            (pool,) = recorded_pools(self.cache)
            page, offset = divmod(self.slot, pool.page_size)
            pool.kv[1].view(torch.int16)[page, 0, offset, 0, 3] ^= 1 << 5
            self.is_done = True


def _serve_with(model: Any, fault: Fault, **engine: Any) -> dict[str, list[int]]:
    manager = make_manager(model, **engine)
    manager.batch_processor = manager._create_batch_processor()
    fault.cache = manager.batch_processor.cache
    return serve(manager, TINY_PROMPTS, TINY_TOKENS)


@pytest.mark.parametrize("mode", RealKvHashMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("name", MODELS)
def test_the_text_is_that_of_a_run_without_and_nothing_is_raised(
    name: str, mode: RealKvHashMode
) -> None:
    model = MODELS[name]()
    # Few slots and small batches: prompts come in parts, and requests wait for each other.
    engine = {"num_blocks": 10, "max_batch_tokens": 32}
    plain = serve(make_manager(model, **engine), SHARING, SHARING_TOKENS)
    config = _config(
        real_kv_hash_mode=mode,
        sweep_interval=3,
        enable_write_input_assert=True,
        enable_verify_token_assert=True,
        health_check_every_n_steps=4,
        health_check_warm_up_steps=2,
    )
    with watch(model, config=config) as canary:
        assert serve(make_manager(model, **engine), SHARING, SHARING_TOKENS) == plain
    assert canary.step > 15
    states = canary.read_states()
    assert [state.violation_write_index for state in states.values()] == [0] * len(states)
    for state in states.values():
        swept = {tag for tag in state.active_tags if tag.name.startswith("SWEEP")}
        for tag in set(state.active_tags) - swept:
            assert state.kernel_run_counters[tag] == 2 * canary.step
    if name == "full":
        assert states["FULL"].slot_run_counters[LaunchTag.SWEEP_K_FULL] > 0


def test_a_window_of_the_engine_is_verified_as_far_as_it_is_read() -> None:
    model = sliding_model()
    with watch(model, config=_config(real_kv_hash_mode=RealKvHashMode.ALL)) as canary:
        serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    states = canary.read_states()
    full = states["FULL"].slot_run_counters[LaunchTag.TAIL_K_FULL]
    window = states["SWA"].slot_run_counters[LaunchTag.TAIL_K_SWA]
    assert full // 2 < window < full


def test_forked_requests_are_verified_through_their_copied_blocks() -> None:
    from transformers import ContinuousBatchingConfig, GenerationConfig

    for model in (tiny_model(), sliding_model()):
        with watch(model, config=_config(real_kv_hash_mode=RealKvHashMode.ALL)) as canary:
            outputs = model.generate_batch(
                [list(range(40, 77))],
                generation_config=GenerationConfig(
                    do_sample=True, num_return_sequences=3, max_new_tokens=20, eos_token_id=-1
                ),
                continuous_batching_config=ContinuousBatchingConfig(
                    page_size=16, num_blocks=32, max_batch_tokens=64, max_requests_per_batch=8
                ),
            )
        assert len(outputs) == 3
        for state in canary.read_states().values():
            assert state.violation_write_index == 0


def test_evicted_requests_and_cached_blocks_under_pressure_raise_nothing() -> None:
    model = tiny_model()
    prompts = {"a": list(range(40, 70)), "b": list(range(90, 120)), "c": list(range(40, 75))}
    new_tokens = {"a": 60, "b": 60, "c": 8}
    config = _config(real_kv_hash_mode=RealKvHashMode.ALL, sweep_interval=1)
    with watch(model, config=config) as canary:
        outputs = serve(make_manager(model, num_blocks=8), prompts, new_tokens)
    assert {name: len(tokens) for name, tokens in outputs.items()} == new_tokens
    assert canary.read_states()["FULL"].violation_write_index == 0


def test_warm_up_and_padding_are_no_steps() -> None:
    model = tiny_model()
    with watch(model, config=_config()) as canary:
        manager = make_manager(model)
        manager.batch_processor = manager._create_batch_processor()
        manager.batch_processor.model_runner.pad_inputs = True
        manager.warmup()
        assert canary.step == 0
        serve(manager, TINY_PROMPTS, TINY_TOKENS)
    assert canary.step > 15


def test_in_mode_log_a_flipped_bit_is_told_of_in_the_frozen_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, fault = tiny_model(), Fault("b", 4, step=6)
    config = _config(CanaryMode.LOG, real_kv_hash_mode=RealKvHashMode.ALL)
    with caplog.at_level(logging.WARNING), watch(model, config=config, on_step=fault):
        texts = _serve_with(model, fault)
    assert {name: len(tokens) for name, tokens in texts.items()} == TINY_TOKENS
    lines = [record.message for record in caplog.records if "kv_canary" in record.message]
    prefix = "kv_canary violation: launch_tag=TAIL_K_FULL fail_reason=verify_real_kv_hash "
    assert lines
    assert all(line.startswith(f"{prefix}slot_idx={fault.slot} position=4 ") for line in lines)


def test_in_mode_dump_the_dump_explains_the_slot_and_serving_goes_on(tmp_path: Path) -> None:
    model, fault = tiny_model(), Fault("b", 4, step=6)
    config = _config(CanaryMode.DUMP, real_kv_hash_mode=RealKvHashMode.ALL)
    with watch(model, config=config, dumps=tmp_path, on_step=fault) as canary:
        texts = _serve_with(model, fault)
    assert {name: len(tokens) for name, tokens in texts.items()} == TINY_TOKENS
    (folder,) = tmp_path.iterdir()
    assert 6 < int(folder.name.removeprefix("step-")) < canary.step
    snapshot = read_file(str(folder / "full.snapshot.arrow"))
    assert fault.slot in snapshot.slots
    # The page before and the page behind are dumped too.
    neighbours = {fault.slot // 16 - 1, fault.slot // 16, fault.slot // 16 + 1}
    assert neighbours <= set((snapshot.slots // 16).tolist())
    assert snapshot.metadata["engine"].startswith("transformers ")
    report = audited(folder)
    assert report.verdict is Verdict.VIOLATIONS
    assert bad_slots(report) == {fault.slot}
    assert {row.request_ids for row in report.violations} == {("b",)}
    assert not bad_columns(report)


def test_a_cached_prefix_that_no_request_runs_on_is_swept_and_dumped(tmp_path: Path) -> None:
    model, fault = tiny_model(), Fault("a", 20, step=None)
    config = _config(CanaryMode.DUMP, real_kv_hash_mode=RealKvHashMode.ALL, sweep_interval=1)
    with watch(model, config=config, dumps=tmp_path, on_step=fault):
        _serve_with(model, fault)
    (folder,) = tmp_path.iterdir()
    state = read_file(str(folder / "full.state.arrow"))
    assert {int(row[0]) for row in state.ring} == {LaunchTag.SWEEP_K_FULL}
    report = audited(folder)
    assert bad_slots(report) == {fault.slot}
    sequences = read_file(str(folder / "full.sequences.arrow"))
    assert "cached" in sequences.states


def _errors(model: Any, fault: Fault) -> list[str]:
    """Serve long texts; what each request failed with."""
    manager = make_manager(model)
    manager.batch_processor = manager._create_batch_processor()
    fault.cache = manager.batch_processor.cache
    for name, tokens in TINY_PROMPTS.items():
        manager.add_request(tokens, request_id=name, max_new_tokens=40)
    manager.start()
    errors = [str(manager.get_result(timeout=60).error) for _ in TINY_PROMPTS]
    manager.stop(block=True)
    return errors


def test_in_mode_raise_the_engine_stops_and_its_requests_fail() -> None:
    model, fault = tiny_model(), Fault("b", 4, step=6)
    config = _config(real_kv_hash_mode=RealKvHashMode.ALL)
    errors: list[str] = []
    with (
        pytest.raises(CanaryViolationError, match="verify_real_kv_hash"),
        watch(model, config=config, on_step=fault),
    ):
        errors = _errors(model, fault)
    assert len(errors) == len(TINY_PROMPTS)
    assert all("kv_canary violation" in error for error in errors)


def _without(tag: str, first_step: int) -> Callable[[CanaryEndpoint, Any], None]:
    """Launches of a tag are dropped from a step on."""
    launch, num_calls = CanaryEndpoint.launch, [0]

    def dropped(endpoint: CanaryEndpoint, step: Any) -> None:
        if endpoint.tag.name == tag:
            num_calls[0] += 1
        if endpoint.tag.name != tag or num_calls[0] < first_step:
            launch(endpoint, step)

    return dropped


@pytest.mark.parametrize("tag", ["HEAD_K_FULL", "TAIL_V_FULL"])
def test_launches_that_are_dropped_are_a_stall_and_the_text_is_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tag: str
) -> None:
    model = tiny_model()
    plain = serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    monkeypatch.setattr(CanaryEndpoint, "launch", _without(tag, first_step=8))
    config = _config(CanaryMode.LOG, health_check_every_n_steps=5, health_check_warm_up_steps=5)
    texts = {}
    with pytest.raises(CanaryStalledError) as stalled, watch(model, config=config):
        texts = serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    assert (stalled.value.tags, stalled.value.step) == ((tag,), 15)
    assert texts == plain
    assert f"tags=[{tag}]" in caplog.text


def test_a_touched_file_dumps_all_requests_and_the_dump_is_clean(tmp_path: Path) -> None:
    model, trigger = sliding_model(), tmp_path / "dump-now"

    def on_step(canary: LiveCanary) -> None:
        if canary.step == 5:
            trigger.touch()

    config = _config(CanaryMode.DUMP, real_kv_hash_mode=RealKvHashMode.ALL)
    dumps, touched = tmp_path / "dumps", TouchedFile(trigger)
    with watch(model, config=config, dumps=dumps, triggered=touched, on_step=on_step):
        serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    (folder,) = dumps.iterdir()
    assert folder.name == "step-000006"
    for pool in ("full", "swa"):
        sequences = read_file(str(folder / f"{pool}.sequences.arrow"))
        assert set(sequences.request_ids) == set(TINY_PROMPTS)
    report = audited(folder)
    assert report.verdict is Verdict.CLEAN, (report.violations[:3], report.findings[:3])


def test_a_later_manager_is_watched_from_a_blank_state() -> None:
    model = tiny_model()
    with watch(model, config=_config()) as canary:
        serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
        first = canary.step
        serve(make_manager(model), {"c": TINY_PROMPTS["c"]}, {"c": 5})
    assert canary.step == 5 < first


def test_asynchronous_batching_is_refused_before_a_request_is_served() -> None:
    from transformers import ContinuousBatchingConfig

    model = tiny_model()
    config = ContinuousBatchingConfig(page_size=16, num_blocks=8, use_async_batching=True)
    with watch(model, config=_config()), pytest.raises(ConfigError, match=r"^use_async_batching"):
        model.init_continuous_batching(continuous_batching_config=config)


def test_a_fault_of_who_watches_is_raised_where_the_block_ends() -> None:
    model = tiny_model()

    def on_step(canary: LiveCanary) -> None:
        raise RuntimeError(f"no room at step {canary.step}")

    outputs: dict[str, list[int]] = {}
    with (
        pytest.raises(KvauditError, match="step 1") as failed,
        watch(model, config=_config(), on_step=on_step),
    ):
        outputs = serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    assert isinstance(failed.value.__cause__, RuntimeError)
    assert {name: len(tokens) for name, tokens in outputs.items()} == TINY_TOKENS


@pytest.mark.parametrize("mode", [CanaryMode.NONE, CanaryMode.LOG])
def test_the_model_is_left_as_it_was_and_in_mode_none_alone(mode: CanaryMode) -> None:
    model = tiny_model()
    before = set(vars(model))
    hooked = set() if mode is CanaryMode.NONE else {"init_continuous_batching"}
    with watch(model, config=CanaryConfig(mode=mode)):
        assert set(vars(model)) - before == hooked
    assert set(vars(model)) == before


def test_the_pages_code_watches_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import ContinuousBatchingConfig, GenerationConfig

    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVAUDIT_CANARY_MODE", "dump")
    model = tiny_model()
    # The page's batch has the engine's own sizes, which are those of a large machine.
    serve_batch = partial(
        model.generate_batch,
        continuous_batching_config=ContinuousBatchingConfig(
            page_size=16, num_blocks=32, max_batch_tokens=64
        ),
    )
    monkeypatch.setattr(model, "generate_batch", serve_batch)
    generation_config = GenerationConfig(do_sample=False, max_new_tokens=6, eos_token_id=-1)
    names = {"model": model, "prompts": [[5, 6, 7]], "generation_config": generation_config}
    exec(code, names)  # noqa: S102 - our own page
    assert capsys.readouterr().out.startswith("6 {")
    assert not list(tmp_path.iterdir())
