"""Layer 0 among a model's tensors, and what makes a table not applicable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvaudit.core.model_config import ModelConfig
from kvaudit.errors import ModelNotApplicable, SchemaMismatch
from kvaudit.importers.layer0_weights import Layer0Weights
from kvaudit.importers.model_layer0 import layer0_weights
from kvaudit.importers.weight_tensor import WeightTensor
from tests.helpers.layer0_weights import tensor

CONFIG = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
}
ATTENTION = "layers.0.self_attn."


class Tensors:
    """A model of random tensors in memory."""

    def __init__(self, prefix: str = "model.", **changes: tuple[int, ...] | None) -> None:
        shapes = {
            "embed_tokens.weight": (5, 8),
            "layers.0.input_layernorm.weight": (8,),
            f"{ATTENTION}k_proj.weight": (4, 8),
            f"{ATTENTION}v_proj.weight": (4, 8),
            **changes,
        }
        generator = np.random.default_rng(0)
        self.values = {
            prefix + name: generator.standard_normal(shape, dtype=np.float32)
            for name, shape in shapes.items()
            if shape is not None
        }

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.values)

    def tensor(self, name: str) -> WeightTensor:
        return tensor(self.values[name], name=name)


def _found(tensors: Tensors, **changes: Any) -> Layer0Weights:
    config = ModelConfig(CONFIG | changes, path="config.json")
    return layer0_weights(config, tensors, path="model", model="toy")


@pytest.mark.parametrize("prefix", ["model.", "", "model.language_model.", "language_model.model."])
def test_the_text_model_is_found_where_it_stands(prefix: str) -> None:
    tensors = Tensors(prefix)
    found = _found(tensors)
    assert (found.num_heads, found.head_dim, found.embedding.shape) == (2, 2, (5, 8))
    np.testing.assert_array_equal(
        found.k.weight, tensors.values[f"{prefix}{ATTENTION}k_proj.weight"]
    )
    assert found.k.bias is None


def test_a_tower_for_images_is_not_taken_for_it() -> None:
    tensors = Tensors()
    tensors.values["vision_tower.layers.0.self_attn.k_proj.weight"] = np.zeros((4, 8), np.float32)
    np.testing.assert_array_equal(
        _found(tensors).k.weight, tensors.values[f"model.{ATTENTION}k_proj.weight"]
    )


def test_a_projection_of_all_three_is_taken_apart() -> None:
    without = {f"{ATTENTION}k_proj.weight": None, f"{ATTENTION}v_proj.weight": None}
    tensors = Tensors(**without, **{f"{ATTENTION}qkv_proj.weight": (16, 8)})
    fused = tensors.values[f"model.{ATTENTION}qkv_proj.weight"]
    found = _found(tensors)
    np.testing.assert_array_equal(found.k.weight, fused[8:12])
    np.testing.assert_array_equal(found.v.weight, fused[12:])
    short = Tensors(**without, **{f"{ATTENTION}qkv_proj.weight": (12, 8)})
    with pytest.raises(ModelNotApplicable):
        _found(short)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"layer_types": ["linear_attention", "full_attention"]}, "linear_attention"),
        ({"kv_lora_rank": 512}, "MLA"),
        ({"qk_layernorm": True}, "norm"),
        ({"clip_qkv": 8.0}, "clipped"),
        ({"model_type": "gpt2"}, "absolute"),
    ],
    ids=str,
)
def test_what_changes_layer_0_is_not_applicable(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelNotApplicable, match=reason):
        _found(Tensors(), **change)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"embed_tokens.weight": None}, "embed_tokens"),
        ({f"{ATTENTION}v_proj.weight": None}, "no such projection"),
        (
            {f"{ATTENTION}v_proj.weight": None, f"{ATTENTION}v_proj.qweight": (1, 8)},
            "quantised",
        ),
    ],
    ids=str,
)
def test_tensors_that_are_not_there_are_named(
    changes: dict[str, tuple[int, ...] | None], reason: str
) -> None:
    with pytest.raises(ModelNotApplicable, match=reason):
        _found(Tensors(**changes))


def test_a_configuration_of_another_model_is_refused() -> None:
    with pytest.raises(SchemaMismatch):
        _found(Tensors(), num_key_value_heads=4)
    with pytest.raises(SchemaMismatch, match="rms_norm_eps"):
        _found(Tensors(), rms_norm_eps=None)
