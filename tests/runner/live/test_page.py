"""docs/live.md says what the runner does, or a test fails."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvaudit.runner.live import CanaryConfig, CanaryManager
from kvaudit.runner.live.flight_recorder import DumpRequest
from tests.helpers.live_engine import LiveEngine

PAGE = (Path(__file__).parents[3] / "docs" / "live.md").read_text(encoding="utf-8")


def _serve(*, late_write: int, dumps: list[DumpRequest]) -> CanaryManager:
    """Run the page's code beside an engine of which one step is followed by a late write."""
    # The second block is for transformers, and tried in tests/capture/test_live_transformers.py.
    code, _ = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    engine = LiveEngine(CanaryConfig())
    k_cache = torch.arange(4 * 16 * 2 * 8).reshape(4, 16, 2, 8).to(torch.bfloat16)
    steps = iter(range(12))

    def forward(batch: object) -> None:
        del batch
        if next(steps) == 5:
            k_cache.view(-1, 16)[engine.slot(1, 2)] += late_write

    names: dict[str, Any] = {
        "k_cache": k_cache,
        "write_dump": dumps.append,
        "prefix_cache": [
            SimpleNamespace(key="a", slots=engine.req_to_token[1, :3].long(), start=0)
        ],
        "batches": (engine.batch() for _ in range(12)),
        "req_to_token": engine.req_to_token,
        "forward": forward,
    }
    exec(code, names)  # noqa: S102 - our own page
    return names["canary"]


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"REAL_KV_HASH_MODE": "all", "SWEEP_INTERVAL": "4", "MODE": "dump"}.items():
        monkeypatch.setenv(f"KVAUDIT_CANARY_{name}", value)


def test_the_code_to_paste_serves_clean_and_sweeps() -> None:
    dumps: list[DumpRequest] = []
    canary = _serve(late_write=0, dumps=dumps)
    assert (canary.step, canary.sweep_passes) == (12, 3)
    assert not dumps


def test_the_code_to_paste_finds_a_late_write_and_dumps_once() -> None:
    dumps: list[DumpRequest] = []
    assert _serve(late_write=1, dumps=dumps).step == 12
    (dump,) = dumps
    assert dump.request_indices == [1]


def test_a_file_that_is_touched_triggers_dumps_as_the_page_says() -> None:
    Path("dump-kv-now").touch()
    dumps: list[DumpRequest] = []
    _serve(late_write=0, dumps=dumps)
    assert len(dumps) == CanaryConfig().max_dumps


def test_every_variable_and_its_default_is_described_and_no_other() -> None:
    described = dict(re.findall(r"^\| `([A-Z_]+)` \| `?(\w+)`? \|", PAGE, flags=re.MULTILINE))
    assert described.keys() == {field.name.upper() for field in fields(CanaryConfig)}
    environ = {f"KVAUDIT_CANARY_{name}": value for name, value in described.items()}
    assert CanaryConfig.from_env(environ) == CanaryConfig()
