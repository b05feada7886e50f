"""The lines of a canary on stderr, in their own words, as log parsers know them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LOGGER: Final = "kvaudit.runner.live"


@contextmanager
def canary_log() -> Iterator[None]:
    """Prints what the canary logs inside it, statistics included."""
    logger = logging.getLogger(LOGGER)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
