from __future__ import annotations

import logging

import pytest

from kvaudit.cli.canary_log import LOGGER, canary_log
from kvaudit.runner.live import stats_logger


def test_what_the_canary_logs_is_on_stderr_in_its_own_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with canary_log():
        logging.getLogger(f"{LOGGER}.stats_logger").info("[canary] step=%d", 100)
        logging.getLogger("kvaudit.elsewhere").info("not this")
    logging.getLogger(LOGGER).info("nor this")
    assert capsys.readouterr().err == "[canary] step=100\n"


def test_the_loggers_of_the_canary_are_below_it() -> None:
    assert stats_logger._LOGGER.name.startswith(f"{LOGGER}.")


def test_a_failure_leaves_no_handler_behind() -> None:
    before = logging.getLogger(LOGGER).handlers[:], logging.getLogger(LOGGER).level
    with pytest.raises(KeyError), canary_log():
        raise KeyError
    assert (logging.getLogger(LOGGER).handlers, logging.getLogger(LOGGER).level) == before
