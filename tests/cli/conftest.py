"""Dumps that the tests of commands start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import dumps


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    dumps.write(tmp_path / "clean")
    return tmp_path / "clean"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    dumps.write(tmp_path / "damaged", pool=dumps.flipped("kv.v.1", slot=3))
    return tmp_path / "damaged"
