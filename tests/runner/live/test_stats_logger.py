"""The line of statistics."""

from __future__ import annotations

import logging

import pytest

from kvaudit.constants import LaunchTag
from kvaudit.runner.live.device_state import CanaryDeviceState
from kvaudit.runner.live.stats_logger import PeriodicCanaryStatsLogger

TAGS = (LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL, LaunchTag.SWEEP_K_FULL)


def _lines(num_steps: int, *, every_n_steps: int, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Each step runs head and tail over ten entries and finds a violation; every 60th sweeps."""
    state = CanaryDeviceState.allocate(ring_capacity=1, device="cpu")
    logger = PeriodicCanaryStatsLogger(state, every_n_steps=every_n_steps, tags=TAGS)
    with caplog.at_level(logging.INFO, logger="kvaudit"):
        for step in range(1, num_steps + 1):
            for tag in TAGS[:2] if step < 150 else TAGS:
                state.kernel_run_counter(tag).add_(1)
                state.slot_run_counter(tag).add_(10)
            state.violation_write_index.add_(1)
            logger.step(step, sweep_passes=step // 60)
        logger.finish()
        logger.finish()
    assert all(record.levelno == logging.INFO for record in caplog.records)
    return [record.getMessage() for record in caplog.records]


def test_a_line_has_the_figures_of_its_step_letter_by_letter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = _lines(250, every_n_steps=100, caplog=caplog)
    assert first == (
        "[canary] step=100 protected_tokens=2000 sweep_passes=1 violations=100 "
        "launch_tags_active=2/3"
    )
    assert second == (
        "[canary] step=200 protected_tokens=4510 sweep_passes=3 violations=200 "
        "launch_tags_active=3/3"
    )


def test_a_line_whose_turn_is_the_last_step_is_printed_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = _lines(300, every_n_steps=100, caplog=caplog)
    assert [line.split()[1] for line in lines] == ["step=100", "step=200", "step=300"]


def test_every_step_can_have_its_line(caplog: pytest.LogCaptureFixture) -> None:
    lines = _lines(5, every_n_steps=1, caplog=caplog)
    assert [line.split()[1] for line in lines] == [f"step={step}" for step in range(1, 6)]


def test_0_prints_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert not _lines(300, every_n_steps=0, caplog=caplog)
