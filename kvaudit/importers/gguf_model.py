"""Layer 0 of a GGUF file, in the terms of the model's makers.

A converter renames the tensors, permutes the rows of K of some families to the other layout of the
rotation, and adds the 1 to Gemma's norms. All of it is undone here: engines that load such a file,
but for llama.cpp itself, hold K as the makers' configuration says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.model_config import ModelConfig
from kvaudit.core.model_families import Norm, family_of
from kvaudit.core.model_rope import head_dim_of
from kvaudit.importers.gguf_file import GgufModel
from kvaudit.importers.layer0_weights import Layer0Weights
from kvaudit.importers.model_layer0 import layer0_weights
from kvaudit.importers.weight_tensor import WeightTensor

# The families by the names that the converter gives them.
_FAMILIES: Final = {
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "phi2": "phi",
    "gemma3": "gemma3_text",
    "gptneox": "gpt_neox",
}
# Those of which the converter permutes the rows of K.
_PERMUTED: Final = ("llama", "smollm3", "granite")
_PREFIX: Final = "model.layers.0."
_NAMES: Final = {
    "model.embed_tokens.weight": "token_embd.weight",
    **{
        f"{_PREFIX}{ours}.{part}": f"blk.0.{theirs}.{part}"
        for ours, theirs in {
            "input_layernorm": "attn_norm",
            "self_attn.k_norm": "attn_k_norm",
            "self_attn.k_proj": "attn_k",
            "self_attn.v_proj": "attn_v",
            "self_attn.qkv_proj": "attn_qkv",
        }.items()
        for part in ("weight", "bias")
    },
}
_LLAMA3_FACTORS: Final = "rope_freqs.weight"
_NOT_WHOLE: Final = "a GGUF file does not say all of this RoPE variant: learn from the safetensors"
_Change = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def gguf_weights(path: Path, *, longest: int | None = None) -> Layer0Weights:
    """Read what makes the rows of layer 0.

    Args:
        path: the file, or one of its shards.
        longest: the longest sequence that the engine allows; None when not known.

    Raises:
        BackendNotInstalled: the gguf package is missing.
        FileUnreadable, SchemaMismatch: it cannot be read, or is incomplete.
        ModelNotApplicable: layer 0 of this model is no function of token and position, or not known.
    """
    model = GgufModel(path)
    architecture = str(model.value("general.architecture"))
    family = _FAMILIES.get(architecture, architecture)
    eps_key = family_of(family, path=model.path).eps_key
    config = _config(model, architecture, model_type=family, eps_key=eps_key)
    weights = layer0_weights(
        config,
        _MakersTensors(model, config, is_permuted=architecture in _PERMUTED),
        path=str(path),
        model=str(model.value("general.name") or ""),
        longest=longest,
    )
    if not _is_whole(model, architecture):
        return replace(weights, rope=None, note=_NOT_WHOLE)
    if weights.rope is not None and _LLAMA3_FACTORS in model.names:
        factors = model.tensor(_LLAMA3_FACTORS).whole().ravel()
        frequencies = weights.rope.inverse_frequencies / factors[: weights.rope.rotary_dim // 2]
        return replace(weights, rope=replace(weights.rope, inverse_frequencies=frequencies))
    return weights


def _is_whole(model: GgufModel, architecture: str) -> bool:
    """Whether the file says all of the rotation."""
    variant = model.value(f"{architecture}.rope.scaling.type")
    return variant in (None, "none", "linear") and "rope_factors_long.weight" not in model.names


def _config(model: GgufModel, architecture: str, *, model_type: str, eps_key: str) -> ModelConfig:
    """The metadata under the keys of a `config.json`."""

    def value(key: str) -> Any:  # noqa: ANN401 - what the file holds
        found = model.value(f"{architecture}.{key}")
        # In some families a number a layer.
        return found[0] if isinstance(found, list) and found else found

    values = {
        "model_type": model_type,
        "hidden_size": value("embedding_length"),
        "num_attention_heads": value("attention.head_count"),
        "num_key_value_heads": value("attention.head_count_kv"),
        "head_dim": value("attention.key_length"),
        "embedding_multiplier": value("embedding_scale"),
        "max_position_embeddings": value("context_length"),
        "rope_theta": value("rope.freq_base"),
        "rope_local_base_freq": value("rope.freq_base_swa"),
        eps_key: value("attention.layer_norm_rms_epsilon") or value("attention.layer_norm_epsilon"),
    }
    config = ModelConfig(values, path=model.path)
    rotary_dim = value("rope.dimension_count")
    if rotary_dim:
        values["partial_rotary_factor"] = rotary_dim / head_dim_of(config)
    if value("rope.scaling.type") == "linear":
        values["rope_scaling"] = {"type": "linear", "factor": value("rope.scaling.factor")}
    return config


class _MakersTensors:
    """The tensors under the makers' names, with what the converter did to their rows undone."""

    def __init__(self, model: GgufModel, config: ModelConfig, *, is_permuted: bool) -> None:
        self._model = model
        self._num_heads = config.count("num_key_value_heads", config.count("num_attention_heads"))
        family = family_of(config.text("model_type"), path=model.path)
        self._changes: dict[str, _Change] = {}
        if is_permuted:
            for part in ("weight", "bias"):
                self._changes[f"{_PREFIX}self_attn.k_proj.{part}"] = self._unpermuted
        if family.norm is Norm.RMS_PLUS_ONE:
            for name in ("input_layernorm", "self_attn.k_norm"):
                self._changes[f"{_PREFIX}{name}.weight"] = _less_one

    @property
    def names(self) -> frozenset[str]:
        """Those of the embedding and of layer 0."""
        stored = self._model.names
        return frozenset(name for name, theirs in _NAMES.items() if theirs in stored)

    def tensor(self, name: str) -> WeightTensor:
        """One of them, as the makers have it."""
        tensor = self._model.tensor(_NAMES[name])
        change = self._changes.get(name)
        if change is None:
            return tensor

        def read(first: int, last: int) -> NDArray[np.float32]:
            return change(tensor.whole())[first:last]

        return replace(tensor, read=read)

    def _unpermuted(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rows of K, [num_heads * head_dim, ...], whose halves lie one after the other again."""
        by_pair = rows.reshape(self._num_heads, -1, 2, *rows.shape[1:])
        return by_pair.swapaxes(1, 2).reshape(rows.shape)


def _less_one(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    return weight - np.float32(1)
