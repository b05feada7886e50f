"""The step as a whole, beside a small engine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from kvaudit.constants import RealKvHashMode
from kvaudit.core.launch_tag import KvHalf, PoolKind
from kvaudit.errors import CanaryStalledError, CanaryViolationError, ConfigError
from kvaudit.runner.live import manager as manager_module
from kvaudit.runner.live.config import CanaryConfig, CanaryMode
from kvaudit.runner.live.flight_recorder import DumpRequest, FlightRecorder
from kvaudit.runner.live.launches import CanaryLaunches
from kvaudit.runner.live.manager import STEP_ORDER
from kvaudit.runner.live.step_inputs import PlannedStep
from kvaudit.runner.live.violation_manager import ViolationBatch
from tests.helpers.live_engine import LiveEngine

LOG = CanaryConfig(mode=CanaryMode.LOG)
QUIET = replace(
    LOG,
    stats_print_every_n_steps=0,
    health_check_every_n_steps=0,
    violation_check_every_n_steps=1,
)
ON_A_DEVICE = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


def _recorder(dumps: list[DumpRequest], triggered: Callable[[], bool] = bool) -> FlightRecorder:
    return FlightRecorder(write=dumps.append, triggered=triggered, max_dumps=3)


def cached_by(engine: Callable[[], LiveEngine]) -> Callable[[PoolKind], Any]:
    """What an engine that is yet to be made caches."""
    return lambda kind: engine().cached_prefixes(kind)


def _called(log: list[str], name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        log.append(name)
        return method(*args, **kwargs)

    return call


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, in order; every part still does its work."""
    log: list[str] = []
    for owner, name in (
        ("SweepOrchestrator", "sweep"),
        ("ViolationManager", "violations"),
        ("KernelRunCounterHealthChecker", "health"),
        ("PeriodicCanaryStatsLogger", "statistics"),
        ("FlightRecorder", "dump"),
    ):
        part = getattr(manager_module, owner)
        monkeypatch.setattr(part, "step", _called(log, name, part.step))
    return log


def _with_logged_launches(engine: LiveEngine, log: list[str]) -> None:
    """Name each launch in the log, as `head verify`."""

    def logged(kind: str, launcher: Callable[..., None]) -> Callable[..., None]:
        def launch(**given: Any) -> None:
            context = given.get("context")
            phase = "" if context is None else context.kernel_kind.name.split("_")[0].lower()
            log.append(f"{phase} {kind}".strip())
            launcher(**given)

        return launch

    for pool in engine.pools.values():
        seam = CanaryLaunches(
            verify=logged("verify", pool.launches.verify),
            write=logged("write", pool.launches.write),
            plan=logged("plan", pool.launches.plan),
        )
        object.__setattr__(pool, "launches", seam)
        for endpoint in pool.endpoints:
            object.__setattr__(endpoint, "launches", seam)


def test_a_step_does_what_the_list_says_in_its_order(order: list[str]) -> None:
    """`step += 1` shows in the number that the observers get."""
    engine = LiveEngine(
        replace(LOG, mode=CanaryMode.DUMP, sweep_interval=1),
        cached_prefixes=lambda _: {},
        flight_recorder=_recorder([]),
    )
    _with_logged_launches(engine, order)
    batch = engine.batch()
    engine.manager.begin_step(batch)
    order.append("forward")
    seen = []
    step = engine.manager._violations.step
    engine.manager._violations.step = lambda number, **given: (
        seen.append((number, engine.manager.step)),
        order.append("step += 1"),
        step(number, **given),
    )
    engine.manager.end_step()
    assert tuple(order) == STEP_ORDER
    assert seen == [(1, 1)]


def test_verify_comes_before_write_in_each_launch_of_both_halves(order: list[str]) -> None:
    engine = LiveEngine(QUIET, halves=(KvHalf.K, KvHalf.V))
    _with_logged_launches(engine, order)
    engine.step()
    launches = [name for name in order if name.split()[0] in {"head", "tail"}]
    assert launches == [*["head verify", "head write"] * 2, *["tail verify", "tail write"] * 2]


def test_prepared_launches_leave_the_records_ring_and_counters_that_others_do() -> None:
    """Batches of 2 to 6 tokens: the prompts are launched as they come, the rest prepared."""
    engines = []
    for max_prepared_tokens in (0, 4, 512):
        engine = LiveEngine(
            replace(
                QUIET,
                real_kv_hash_mode=RealKvHashMode.ALL,
                max_prepared_tokens=max_prepared_tokens,
            ),
            halves=(KvHalf.K, KvHalf.V),
            window=4,
        )
        engine.run(9)
        engine.overwrite(1, 1)
        engine.run(20)
        engines.append(engine)
    plain, *prepared = engines
    assert plain.state.violation_write_index > 0
    for engine in prepared:
        assert torch.equal(engine.state.words, plain.state.words)
        assert torch.equal(engine.state.violation_ring, plain.state.violation_ring)
        for kind, pool in engine.pools.items():
            for name, buffer in pool.buffers.items():
                assert torch.equal(buffer, plain.pools[kind].buffers[name])


def test_steps_that_repeat_are_launched_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LiveEngine(QUIET, window=4)
    engine.run(4)
    launchers = {
        id(launcher): launcher
        for pool in engine.pools.values()
        for launcher in (pool.launches.plan, pool.launches.verify, pool.launches.write)
    }
    assert len(launchers) == 6
    for launcher in launchers.values():
        for method in ("_launcher", "_prepare"):
            monkeypatch.setattr(launcher, method, lambda **_: pytest.fail("not prepared"))
    runs = engine.state.kernel_run_counters.clone()
    engine.run(5)
    assert sorted(set((engine.state.kernel_run_counters - runs).tolist())) == [0, 10]


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("mode", list(RealKvHashMode))
def test_a_served_engine_is_clean_over_hundreds_of_steps(
    mode: RealKvHashMode, window: int | None
) -> None:
    config = replace(LOG, mode=CanaryMode.RAISE, real_kv_hash_mode=mode, sweep_interval=7)
    told: list[ViolationBatch] = []
    engine = LiveEngine(
        config,
        halves=(KvHalf.K, KvHalf.V),
        window=window,
        cached_prefixes=cached_by(lambda: engine),
        tell=told.append,
    )
    with engine.manager:
        engine.run(120)
    assert not told
    assert engine.manager.step == 120
    assert engine.manager.sweep_passes >= 8


def test_an_overwritten_record_is_raised_within_two_steps_and_by_the_end_at_the_latest() -> None:
    engine = LiveEngine(replace(QUIET, mode=CanaryMode.RAISE))
    engine.run(4)
    slot = engine.overwrite(1, 2)
    with pytest.raises(CanaryViolationError) as caught:
        engine.run(3)
    assert engine.manager.step == 7
    assert f"launch_tag=TAIL_K_FULL fail_reason=verify_position slot_idx={slot} position=3" in str(
        caught.value
    )
    engine = LiveEngine(replace(QUIET, mode=CanaryMode.RAISE))
    engine.run(4)
    engine.overwrite(1, 2)
    engine.step()
    with pytest.raises(CanaryViolationError):
        engine.manager.finish()


def test_mode_none_launches_nothing_and_says_nothing() -> None:
    engine = LiveEngine(CanaryConfig())
    with engine.manager:
        engine.run(5)
        engine.manager.begin_planned_step([])
    assert engine.state.words.count_nonzero() == 0
    assert engine.pool.buffers["k.tail"].count_nonzero() == 0
    assert engine.manager.step == 0


def test_an_alarm_of_one_observer_leaves_the_others_their_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = replace(
        QUIET,
        stats_print_every_n_steps=1,
        health_check_every_n_steps=1,
        health_check_warm_up_steps=0,
    )
    told: list[ViolationBatch] = []
    engine = LiveEngine(config, tell=told.append)
    engine.step()
    nothing = PlannedStep(pool_kind=PoolKind.FULL, verify_plan=None, write=None)
    with caplog.at_level(logging.INFO, logger="kvaudit"):
        engine.manager.begin_planned_step([nothing])
        engine.manager.end_step()
        engine.state.violation_write_index.add_(1)
        for _ in range(3):
            engine.manager.begin_planned_step([nothing])
            with pytest.raises(CanaryStalledError):
                engine.manager.end_step()
    steps = [record.getMessage().split()[1] for record in caplog.records]
    assert steps == [f"step={step}" for step in range(1, 5)]
    assert [batch.total for batch in told] == [1]


def test_mode_dump_writes_the_first_violation_and_goes_on_serving() -> None:
    dumps: list[DumpRequest] = []
    engine = LiveEngine(
        replace(QUIET, mode=CanaryMode.DUMP), num_requests=3, flight_recorder=_recorder(dumps)
    )
    with engine.manager:
        engine.run(4)
        slot = engine.overwrite(2, 2)
        engine.run(9)
    (dump,) = dumps
    assert slot in {row.slot for row in dump.rows}
    assert slot in dump.slots[PoolKind.FULL]
    assert dump.request_indices == [2]
    assert dump.step <= 7
    assert engine.manager.step == 13


def test_a_violation_of_the_last_step_is_dumped_at_the_end() -> None:
    dumps: list[DumpRequest] = []
    engine = LiveEngine(replace(QUIET, mode=CanaryMode.DUMP), flight_recorder=_recorder(dumps))
    with engine.manager:
        engine.run(4)
        engine.overwrite(1, 1)
        engine.step()
    assert len(dumps) == 1


def test_an_error_of_the_engine_leaves_the_block_as_it_is() -> None:
    engine = LiveEngine(replace(QUIET, mode=CanaryMode.RAISE))

    def serve() -> None:
        with engine.manager:
            engine.run(4)
            engine.overwrite(1, 1)
            engine.step()
            raise KeyError("the engine's own")

    with pytest.raises(KeyError):
        serve()


def test_a_forward_that_failed_is_no_step_and_is_begun_again() -> None:
    engine = LiveEngine(replace(LOG, mode=CanaryMode.RAISE))
    with engine.manager:
        engine.step()
        batch = engine.batch()
        engine.manager.begin_step(batch)
        engine.manager.begin_step(batch)
        engine.manager.end_step()
    assert engine.manager.step == 2


def test_a_canary_made_in_inference_mode_is_stepped_and_finished_outside_of_it() -> None:
    told: list[ViolationBatch] = []
    config = replace(LOG, real_kv_hash_mode=RealKvHashMode.ALL, sweep_interval=3)
    with torch.inference_mode():
        engine = LiveEngine(
            config, cached_prefixes=cached_by(lambda: engine), tell=told.append, window=4
        )
        engine.run(4)
    engine.run(4)
    engine.overwrite(1, 1)
    engine.step()
    engine.manager.finish()
    assert told
    assert engine.manager.sweep_passes == 2


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ({"mode": CanaryMode.DUMP}, {}),
        ({"mode": CanaryMode.DUMP}, {"tell": print}),
        ({"mode": CanaryMode.DUMP}, {"flight_recorder": _recorder([]), "tell": print}),
        ({"mode": CanaryMode.LOG}, {"flight_recorder": _recorder([])}),
        ({"mode": CanaryMode.LOG, "sweep_interval": 5}, {}),
    ],
)
def test_a_part_that_is_missing_or_not_used_is_refused(
    config: dict[str, Any], parts: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        LiveEngine(CanaryConfig(**config), **parts)


def test_the_device_is_never_waited_for_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU there is nothing to wait for: only that no step flushes is seen here."""
    from kvaudit.runner.live.delayed_handler import DelayedDeviceHostHandler

    def refuse(handler: DelayedDeviceHostHandler) -> None:
        pytest.fail(f"{handler} is flushed in a step")

    monkeypatch.setattr(DelayedDeviceHostHandler, "flush", refuse)
    LiveEngine(LOG).run(210)


def _ms_per_step(engine: LiveEngine, num_steps: int) -> float:
    """The median time of steps without launches, in milliseconds."""
    times = []
    for _ in range(num_steps):
        engine.manager.begin_planned_step([])
        start = time.perf_counter()
        engine.manager.end_step()
        times.append(time.perf_counter() - start)
    return 1e3 * sorted(times)[num_steps // 2]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_A_DEVICE)])
def test_a_step_in_which_nothing_is_due_costs_less_than_30_microseconds(device: str) -> None:
    engine = LiveEngine(LOG, device=device)
    _ms_per_step(engine, 50)
    assert _ms_per_step(engine, 40) < 0.030


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_device_serving_is_clean_and_one_overwritten_record_is_found() -> None:
    told: list[ViolationBatch] = []
    config = replace(LOG, real_kv_hash_mode=RealKvHashMode.ALL, sweep_interval=7)
    engine = LiveEngine(
        config,
        device="cuda",
        cached_prefixes=cached_by(lambda: engine),
        tell=told.append,
    )
    with engine.manager:
        engine.run(110)
        assert not told
        slot = engine.overwrite(1, 1)
        engine.run(3)
    assert slot in {row.slot for batch in told for row in batch.rows}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_device_busy_for_300_ms_delays_no_step_without_launches() -> None:
    engine = LiveEngine(LOG, device="cuda")
    _ms_per_step(engine, 100)
    torch.cuda.synchronize()
    torch.cuda._sleep(int(300 * 2e6))
    start = time.perf_counter()
    _ms_per_step(engine, 100)
    elapsed = time.perf_counter() - start
    assert not torch.cuda.current_stream().query(), "the device was not busy long enough"
    assert elapsed < 0.05
