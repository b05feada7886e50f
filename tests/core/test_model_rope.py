"""The rotation of layer 0 by a configuration's keys, old and new."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import transformers

from kvaudit.core.model_config import ModelConfig
from kvaudit.core.model_families import FAMILIES
from kvaudit.core.model_rope import LayerRope, layer0_rope, rope_of
from kvaudit.errors import SchemaMismatch
from tests.helpers.model_families import CASES

HEAD_DIM = 64
FACTORS = {"short_factor": [1.0] * (HEAD_DIM // 2), "long_factor": [2.0] * (HEAD_DIM // 2)}


def _layer0(model_type: str = "llama", *, longest: int | None = None, **values: Any) -> LayerRope:
    values = {"max_position_embeddings": 8192} | values
    return layer0_rope(
        ModelConfig(values, path="config.json"),
        FAMILIES[model_type],
        head_dim=HEAD_DIM,
        longest=longest,
    )


@pytest.mark.parametrize("name", ["llama3-scaled", "gemma3", "phi", "glm"])
def test_a_configuration_in_memory_is_enough(name: str) -> None:
    case = CASES[name]
    config = getattr(transformers, case.config or f"{case.architecture}Config")(**case.settings)
    head_dim = getattr(config, "head_dim", None)
    head_dim = head_dim or config.hidden_size // config.num_attention_heads
    for values in (config.to_dict(), {"model_type": "llava", "text_config": config.to_dict()}):
        rope = rope_of(values).rope
        assert rope.head_dim == head_dim
        assert rope.layout == FAMILIES[config.model_type].layout
        assert rope.inverse_frequencies[0] == 1


def test_the_base_and_the_share_that_turns_may_stand_under_several_keys() -> None:
    plain = _layer0(rope_theta=1e6).rope
    np.testing.assert_allclose(plain.inverse_frequencies, 1e6 ** -(np.arange(32) / 32))
    for values in ({"rotary_pct": 0.5}, {"rope_parameters": {"partial_rotary_factor": 0.5}}):
        assert _layer0(**values).rope.rotary_dim == 32
    neox = _layer0("gpt_neox", rotary_emb_base=2e4).rope
    np.testing.assert_allclose(neox.inverse_frequencies, 2e4 ** -(np.arange(8) / 8))


def test_layers_of_a_window_may_have_a_base_of_their_own() -> None:
    old = {"rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    local = _layer0("gemma3_text", rope_local_base_freq=3e4, **old).rope
    np.testing.assert_allclose(local.inverse_frequencies, 3e4 ** -(np.arange(32) / 32))
    whole = _layer0("gemma3_text", layer_types=["full_attention"], **old).rope
    np.testing.assert_allclose(whole.inverse_frequencies, 1e6 ** -(np.arange(32) / 32) / 8)
    nested = {
        "full_attention": {"rope_theta": 7.0},
        "sliding_attention": {"rope_theta": 5e4},
    }
    new = _layer0("gemma3_text", layer_types=["sliding_attention"], rope_parameters=nested).rope
    np.testing.assert_allclose(new.inverse_frequencies, 5e4 ** -(np.arange(32) / 32))


def test_a_layer_that_is_not_rotated_says_so() -> None:
    assert not _layer0("smollm3", no_rope_layers=[0, 1]).rope.inverse_frequencies.any()
    assert _layer0("smollm3", no_rope_layers=[1, 0]).rope.inverse_frequencies.all()


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"rope_type": "default", "mrope_section": [8, 12, 12]}, "image"),
        ({"rope_type": "proportional"}, "'proportional'"),
        ({"rope_type": "dynamic", "factor": 2.0}, "--max-length"),
        ({"rope_type": "longrope", **FACTORS}, "--max-length"),
    ],
    ids=str,
)
def test_a_rotation_that_is_not_settled_is_not_guessed(
    parameters: dict[str, Any], reason: str
) -> None:
    found = _layer0(rope_parameters=parameters)
    assert found.rope is None
    assert reason in found.note


def test_an_attention_that_rotates_by_chunks_is_not_taken_for_plain_rope() -> None:
    found = _layer0("qwen2", dual_chunk_attention_config={"chunk_size": 262_144})
    assert found.rope is None
    assert "chunk" in found.note


@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "linear"},
        {"rope_type": "llama3", "factor": 2.0},
        {"rope_type": "default", "rope_theta": "much"},
        {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]},
    ],
    ids=str,
)
def test_a_number_that_is_missing_is_an_error(parameters: dict[str, Any]) -> None:
    with pytest.raises(SchemaMismatch):
        _layer0(longest=100, rope_parameters=parameters)
