"""How a model rotates K goes into every snapshot that is dumped, and into no other file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from examples.capture_smollm2 import make_manager, serve
from kvaudit.capture import Recorder, dump
from kvaudit.capture.live_transformers import watch
from kvaudit.capture.rope_metadata import rope_metadata
from kvaudit.capture.transformers import record
from kvaudit.core.rope import Rope, plain_frequencies
from kvaudit.errors import ConfigError
from kvaudit.formats.reader import read_file
from kvaudit.runner.live import CanaryConfig, CanaryMode
from tests.helpers.tiny_model import TINY_PROMPTS, TINY_TOKENS, tiny_model
from tests.helpers.toy_engine import ToyEngine
from tests.helpers.watched_engine import BesideEngine

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0},
}
EXPECTED = Rope(inverse_frequencies=plain_frequencies(theta=50_000.0, rotary_dim=16), head_dim=16)


def assert_expected(metadata: dict[str, str]) -> None:
    rope = Rope.from_json(metadata["rope"])
    np.testing.assert_array_equal(rope.inverse_frequencies, EXPECTED.inverse_frequencies)
    assert (rope.head_dim, rope.layout) == (EXPECTED.head_dim, EXPECTED.layout)


@pytest.mark.parametrize("given", [CONFIG, {"text_config": CONFIG}, EXPECTED], ids=str)
def test_a_configuration_and_a_rope_say_the_same(given: object) -> None:
    metadata = rope_metadata(given)
    assert metadata.keys() == {"rope"}
    assert_expected(metadata)


def test_what_is_not_known_says_nothing() -> None:
    assert rope_metadata(None) == {}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model_type": "gpt2"}, "learned absolute positions"),
        (
            {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
            "longest",
        ),
    ],
)
def test_a_model_without_one_rotation_is_dumped_with_the_reason(changes: dict, why: str) -> None:
    metadata = rope_metadata({**CONFIG, **changes})
    assert metadata.keys() == {"rope_note"}
    assert why in metadata["rope_note"]


@pytest.mark.parametrize(
    "given", ["llama", 5, {**CONFIG, "hidden_size": "64"}, {**CONFIG, "num_attention_heads": None}]
)
def test_what_is_no_configuration_is_refused(given: object) -> None:
    with pytest.raises(ConfigError, match=r"^rope: ") as refused:
        rope_metadata(given)
    assert refused.value.hint


def test_a_dump_carries_it_in_the_snapshot_alone(tmp_path: Path) -> None:
    pair = tuple(torch.zeros(4, 2, 1, 16) for _ in "kv")
    asked = {"layout": "page slot head dim", "page_size": 2, "page_tables": [[1]], "kv_lens": [1]}
    files = dump(tmp_path / "full", kv=[pair], **asked, rope=CONFIG)
    assert_expected(read_file(str(files[0])).metadata)
    assert b"kvaudit.rope" not in files[1].read_bytes()


def test_the_key_is_no_further_metadata() -> None:
    with pytest.raises(ConfigError, match=r"^metadata: 'rope'"):
        Recorder(metadata={"rope": "none"})


def test_a_recorder_carries_it_in_its_snapshots_and_not_in_its_trace(tmp_path: Path) -> None:
    engine = ToyEngine(Recorder(rope=CONFIG))
    engine.join("a", [1, 2, 3])
    engine.recorder.start_trace(tmp_path)
    engine.step()
    for path in engine.recorder.end_trace():
        is_snapshot = path.name.endswith(".snapshot.arrow")
        assert (b"kvaudit.rope" in path.read_bytes()) == is_snapshot


def test_a_live_canary_carries_it_in_its_snapshots_alone(tmp_path: Path) -> None:
    config = CanaryConfig(mode=CanaryMode.DUMP)
    beside = {"dumps": tmp_path, "triggered": lambda: True, "rope": CONFIG}
    engine = ToyEngine(BesideEngine(config, **beside), dim=8)
    engine.join("a", [1, 2, 3])
    engine.step()
    engine.recorder.finish()
    (snapshot,) = tmp_path.glob("*/*.snapshot.arrow")
    assert_expected(read_file(str(snapshot)).metadata)
    (state,) = tmp_path.glob("*/*.state.arrow")
    assert b"kvaudit.rope" not in state.read_bytes()


@pytest.mark.parametrize("adapter", ["record", "watch"])
def test_the_adapters_for_transformers_say_it_by_themselves(tmp_path: Path, adapter: str) -> None:
    model = tiny_model(rope_parameters={"rope_type": "default", "rope_theta": 50_000.0})
    if adapter == "record":
        with record(model) as recorder:
            serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
        recorder.dump(tmp_path)
    else:
        config = CanaryConfig(mode=CanaryMode.DUMP)
        with watch(model, config=config, dumps=tmp_path, triggered=lambda: True):
            serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    snapshots = list(tmp_path.rglob("*.snapshot.arrow"))
    assert snapshots
    for path in snapshots:
        rope = Rope.from_json(read_file(str(path)).metadata["rope"])
        expected = plain_frequencies(theta=50_000.0, rotary_dim=8)
        np.testing.assert_array_equal(rope.inverse_frequencies, expected)
