"""A recorded run that the parts of a replay are tested on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.replays import record_toy


@pytest.fixture(scope="package")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty steps with dumps of digests every tenth; it is not to be changed."""
    folder = tmp_path_factory.mktemp("short-run")
    record_toy(folder, num_steps=40, digests_every=10)
    return folder
