"""The trace of a run through transformers' continuous batching."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples.capture_smollm2 import make_manager, serve
from kvaudit.capture import Recorder
from kvaudit.capture.transformers import record
from kvaudit.constants import LaunchTag
from kvaudit.core.report import Verdict
from kvaudit.errors import ConfigError, KvauditError
from kvaudit.formats.reader import read_file
from kvaudit.formats.trace_reader import open_trace
from tests.capture.test_transformers import ENGINE, prompts
from tests.helpers.auditing import audited
from tests.helpers.rederived import assert_trace_agrees
from tests.helpers.smollm2 import smollm2
from tests.helpers.tiny_model import TINY_PROMPTS, TINY_TOKENS, sliding_model, tiny_model

TRACED_TOKENS = {"r1": 9, "r2": 4, "r3": 6, "r5": 7, "r6": 5}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[int]]]:
    """A short run, three of its requests behind one prefix, with its texts."""
    folder = tmp_path_factory.mktemp("trace")
    served = {name: prompts()[name] for name in TRACED_TOKENS}
    engine = ENGINE | {"max_requests": 3}
    with record(smollm2(), content="digests", trace=folder, digests_every=3):
        texts = serve(make_manager(smollm2(), **engine), served, TRACED_TOKENS)
    return folder, texts


def test_a_traced_run_can_be_had_again_from_its_trace(trace: tuple[Path, Any]) -> None:
    folder, _ = trace
    rederived, steps = assert_trace_agrees(folder)
    assert len(list(folder.glob("step-*"))) >= 4
    assert rederived.num_verified > 4000
    assert rederived.events["free"] == len(TRACED_TOKENS)
    state = read_file(folder / "full.state.arrow")
    num_forwards = sum(step.write is not None for step in steps)
    for tag in (LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL):
        assert state.kernel_run_counters[tag] == num_forwards
        assert state.slot_run_counters[tag] == rederived.events["write"]


def test_every_position_of_a_traced_run_is_written_once_or_shared(
    trace: tuple[Path, dict[str, list[int]]],
) -> None:
    folder, texts = trace
    written: dict[str, dict[int, int]] = {name: {} for name in texts}
    first_prefix: dict[str, int] = {}
    for step in open_trace(folder / "full.plan.arrow").steps():
        if step.write is None:
            continue
        for idx, name in enumerate(step.write.request_ids):
            first_prefix.setdefault(name, int(step.batch.prefix_lens[idx]))
            entries = step.write.entries_of(idx)
            tokens = step.write.input_ids[entries].tolist()
            for position, token in zip(step.write.positions[entries].tolist(), tokens, strict=True):
                assert position not in written[name]
                written[name][position] = token
    for name, tokens in written.items():
        # The last sampled token is never run.
        whole = (prompts()[name] + texts[name])[:-1]
        assert tokens == {p: whole[p] for p in range(first_prefix[name], len(whole))}
    # Three blocks of 16, which the first of the three has written.
    assert max(first_prefix[name] for name in ("r1", "r3", "r5")) == 48
    assert audited(folder).verdict is Verdict.CLEAN


def test_a_trace_of_sliding_groups_skips_what_is_not_stored(tmp_path: Path) -> None:
    model = sliding_model()
    with record(model, trace=tmp_path, digests_every=5):
        serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    full, _ = assert_trace_agrees(tmp_path)
    swa, steps = assert_trace_agrees(tmp_path, "swa")
    # The longest prompt has 37 tokens, and a window 24 slots.
    assert (full.events["skip"], swa.events["skip"]) == (0, 37 - 24)
    assert all(step.write.enable_write_input_assert is False for step in steps if step.write)
    assert swa.events["edit"] > 0
    assert swa.num_verified > 0


def test_a_recording_that_fails_leaves_no_trace(tmp_path: Path) -> None:
    model = tiny_model()

    def on_step(recorder: Recorder) -> None:
        if recorder.step == 3:
            raise RuntimeError("no room")

    with pytest.raises(KvauditError), record(model, on_step=on_step, trace=tmp_path) as recorder:
        serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    assert not recorder.is_tracing
    assert {path.name for path in tmp_path.iterdir()} == {"step-000000"}


def test_a_trace_follows_one_manager(tmp_path: Path) -> None:
    model = tiny_model()
    outputs: list[dict[str, list[int]]] = []
    with pytest.raises(ConfigError, match="trace"), record(model, trace=tmp_path):
        outputs.extend(serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS) for _ in range(2))
    assert outputs[0] == outputs[1]


def test_a_block_that_serves_nothing_has_no_trace(tmp_path: Path) -> None:
    with record(tiny_model(), trace=tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
