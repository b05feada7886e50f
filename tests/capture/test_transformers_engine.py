"""What a follower is told of the engine, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from examples.capture_smollm2 import make_manager, serve
from kvaudit.capture import ForwardRow
from kvaudit.capture.transformers_engine import EngineHooks
from kvaudit.core.launch_tag import PoolKind
from kvaudit.errors import ConfigError
from tests.helpers.tiny_model import TINY_PROMPTS, TINY_TOKENS, sliding_model, tiny_model


class Follower:
    """Notes every call."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.rows: list[ForwardRow] = []

    def attach(self, _processor: Any) -> None:
        self.calls.append("attach")

    def before_forward(self, rows: Sequence[ForwardRow]) -> None:
        self.calls.append("before_forward")
        self.rows += rows

    def after_forward(self) -> None:
        self.calls.append("after_forward")

    def end_step(self) -> None:
        self.calls.append("end_step")

    def forget(self, request_id: str) -> None:
        self.calls.append(f"forget {request_id}")

    def copy_slots(self, _src: Any, _dst: Any) -> None:
        self.calls.append("copy_slots")


@pytest.fixture
def follower() -> Follower:
    return Follower()


def test_a_step_is_told_of_in_order_and_every_request_is_forgotten(follower: Follower) -> None:
    model, engine = tiny_model(), EngineHooks(follower=follower)
    engine.hook_model(model)
    serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    engine.remove()
    assert engine.hooks.failure is None
    assert follower.calls[0] == "attach"
    steps = [call for call in follower.calls[1:] if not call.startswith("forget")]
    assert steps == ["before_forward", "after_forward", "end_step"] * (len(steps) // 3)
    forgotten = [call for call in follower.calls if call.startswith("forget")]
    assert sorted(forgotten) == [f"forget {name}" for name in TINY_PROMPTS]
    assert not engine.states


def test_rows_are_each_requests_tokens_in_turn(follower: Follower) -> None:
    model, engine = sliding_model(), EngineHooks(follower=follower)
    engine.hook_model(model)
    texts = serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    engine.remove()
    for name, prompt in TINY_PROMPTS.items():
        rows = [row for row in follower.rows if row.request_id == name]
        # The last sampled token is never run.
        run = [token for row in rows for token in row.tokens]
        assert run == (prompt + texts[name])[:-1]
        assert [p for row in rows for p in row.positions] == list(range(len(run)))
        assert all(set(row.slots) == {PoolKind.FULL, PoolKind.SWA} for row in rows)
        assert all(row.prompt_len == len(prompt) for row in rows)


def test_warm_up_is_a_forward_without_a_request(follower: Follower) -> None:
    model, engine = tiny_model(), EngineHooks(follower=follower)
    engine.hook_model(model)
    manager = make_manager(model)
    manager.batch_processor = manager._create_batch_processor()
    manager.batch_processor.model_runner.pad_inputs = True
    manager.warmup()
    engine.remove()
    assert set(follower.calls) == {"attach", "before_forward", "after_forward"}
    assert follower.rows == []


def test_an_engine_that_was_let_go_of_is_not_asked(follower: Follower) -> None:
    engine = EngineHooks(follower=follower)
    with pytest.raises(ConfigError, match="ended"):
        _ = engine.running
