"""Layer 0 of a model, found among its tensors by its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import element_type
from kvaudit.core.model_config import ModelConfig
from kvaudit.core.model_families import Family, family_of, not_applicable
from kvaudit.core.model_rope import FULL, SLIDING, head_dim_of, layer0_rope
from kvaudit.errors import ModelNotApplicable
from kvaudit.importers.layer0_weights import Layer0Weights, NormWeights, Projection
from kvaudit.importers.scaled_weights import SCALE_NAMES, scaled
from kvaudit.importers.weight_tensor import TensorSet, WeightTensor

# Where the text model stands among a model's tensors.
_PREFIXES: Final = (
    "model.",
    "",
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "gpt_neox.",
)
_EMBEDDINGS: Final = ("embed_tokens.weight", "embed_in.weight")
_ATTENDING: Final = (None, FULL, SLIDING, "chunked_attention")
_LAYER: Final = "layers.0."


def layer0_weights(
    config: ModelConfig, tensors: TensorSet, *, path: str, model: str, longest: int | None = None
) -> Layer0Weights:
    """What makes the rows of layer 0.

    Args:
        config: the configuration of the text model, under the keys of a `config.json`.
        tensors: the model's.
        path: the model, as the user wrote it.
        model: its name.
        longest: the longest sequence that the engine allows; None when not known.

    Raises:
        SchemaMismatch: the configuration or a file is not what it should be.
        ModelNotApplicable: layer 0 of this model is no function of token and position, or not known.
    """
    family = family_of(config.text("model_type"), path=config.path)
    _check_applicable(config)
    layer = _LayerTensors(tensors, path=path, block=_scale_block(config))
    num_query_heads = config.count("num_attention_heads")
    num_heads = config.count("num_key_value_heads", num_query_heads)
    head_dim = head_dim_of(config)
    k, v, dtype = layer.projections(
        num_query_heads=num_query_heads, num_heads=num_heads, head_dim=head_dim
    )
    norm = NormWeights(kind=family.norm, eps=config.number(family.eps_key))
    k_norm = layer.optional("self_attn.k_norm.weight")
    k_norm_kind = family.k_norm or family.norm
    rope = layer0_rope(config, family, head_dim=head_dim, longest=longest)
    return Layer0Weights(
        path=path,
        model=model,
        dtype=dtype,
        num_heads=num_heads,
        head_dim=head_dim,
        embedding=layer.embedding,
        embedding_scale=_embedding_scale(config, family),
        norm=replace(
            norm,
            weight=layer.optional("input_layernorm.weight"),
            bias=layer.optional("input_layernorm.bias"),
        ),
        k=k,
        v=v,
        k_norm=None if k_norm is None else replace(norm, kind=k_norm_kind, weight=k_norm),
        rope=rope.rope,
        note=rope.note,
    )


def _check_applicable(config: ModelConfig) -> None:
    """Refuse what changes layer 0 beyond its family.

    Raises:
        ModelNotApplicable: something does.
    """
    kind = config.first("layer_types")
    if kind not in _ATTENDING:
        raise not_applicable(f"layer 0 is no attention layer but {kind!r}", path=config.path)
    if config.has("kv_lora_rank"):
        raise not_applicable("the cache holds latent rows (MLA)", path=config.path)
    if config.flag("qk_layernorm"):
        raise not_applicable("each head of K has a norm of its own", path=config.path)
    if config.has("clip_qkv"):
        raise not_applicable("K and V are clipped", path=config.path)


def _embedding_scale(config: ModelConfig, family: Family) -> float:
    if family.scales_embedding:
        return float(np.sqrt(config.count("hidden_size")))
    return config.number("embedding_multiplier", 1.0)


def _scale_block(config: ModelConfig) -> tuple[int, ...]:
    """Rows and columns of the blocks that have a scale each; () where there are none."""
    quantised = config.section("quantization_config")
    if quantised is None or not quantised.has("weight_block_size"):
        return ()
    return tuple(int(size) for size in quantised.numbers("weight_block_size"))


class _LayerTensors:
    """The tensors of the embedding and of layer 0, by the end of their names."""

    def __init__(self, tensors: TensorSet, *, path: str, block: tuple[int, ...]) -> None:
        self._block = block
        self._tensors = tensors
        self._names = tensors.names
        self._path = path
        places = [(prefix, name) for prefix in _PREFIXES for name in _EMBEDDINGS]
        found = next((place for place in places if "".join(place) in self._names), None)
        if found is None:
            raise not_applicable(f"it has no {' or '.join(_EMBEDDINGS)}", path=path)
        self._prefix = found[0]
        self.embedding: WeightTensor = tensors.tensor("".join(found))

    def optional(self, name: str) -> NDArray[np.float32] | None:
        """A tensor of layer 0, whole, float32; None where the model has none of that name."""
        full = self._full(name)
        return self._tensors.tensor(full).whole() if full in self._names else None

    def projections(
        self, *, num_query_heads: int, num_heads: int, head_dim: int
    ) -> tuple[Projection, Projection, str]:
        """Those to K and to V, and the element type that the model computes in."""
        for_q, for_k = num_query_heads * head_dim, num_heads * head_dim
        if self._has("self_attn.qkv_proj"):
            firsts = (for_q, for_q + for_k)
            rows = [np.arange(first, first + for_k) for first in firsts]
            return self._parts("self_attn.qkv_proj", rows)
        if self._has("attention.query_key_value"):
            # Head by head: Q, K and V of one lie together.
            by_head = np.arange(3 * for_k).reshape(num_heads, 3, head_dim)
            return self._parts(
                "attention.query_key_value", [by_head[:, part].ravel() for part in (1, 2)]
            )
        k, v = (self._projection(f"self_attn.{half}_proj") for half in ("k", "v"))
        return k, v, self._dtype("self_attn.v_proj")

    def _parts(
        self, name: str, rows: Sequence[NDArray[np.int64]]
    ) -> tuple[Projection, Projection, str]:
        """Two parts of one projection, by their rows."""
        fused = self._projection(name)
        if max(map(np.max, rows)) >= len(fused.weight):
            raise not_applicable(f"{name} has {len(fused.weight)} rows", path=self._path)
        k, v = (
            Projection(
                weight=fused.weight[some], bias=None if fused.bias is None else fused.bias[some]
            )
            for some in rows
        )
        return k, v, self._dtype(name)

    def _projection(self, name: str) -> Projection:
        weight = self.optional(f"{name}.weight")
        if weight is None:
            raise self._without(name)
        if self._is_scaled(name):
            weight = self._scaled(name, weight)
        return Projection(weight=weight, bias=self.optional(f"{name}.bias"))

    def _dtype(self, name: str) -> str:
        if self._is_scaled(name):
            return self.embedding.dtype
        return self._tensors.tensor(self._full(f"{name}.weight")).dtype

    def _is_scaled(self, name: str) -> bool:
        """Whether a weight is stored in one byte, which needs a scale."""
        kind = element_type(self._tensors.tensor(self._full(f"{name}.weight")).dtype)
        return kind is not None and kind.itemsize == 1

    def _scaled(self, name: str, stored: NDArray[np.float32]) -> NDArray[np.float32]:
        for end in SCALE_NAMES:
            scale = self.optional(f"{name}.weight{end}")
            weight = None if scale is None else scaled(stored, scale, block=self._block)
            if weight is not None:
                return weight
        raise not_applicable(
            f"{self._full(name)}.weight is quantised, and its scale is not known", path=self._path
        )

    def _has(self, name: str) -> bool:
        return self._full(f"{name}.weight") in self._names

    def _full(self, name: str) -> str:
        return f"{self._prefix}{_LAYER}{name}"

    def _without(self, name: str) -> ModelNotApplicable:
        is_quantised = any(each.startswith(self._full(name)) for each in self._names)
        reason = "its weights are quantised" if is_quantised else "it has no such projection"
        return not_applicable(f"{self._full(name)}.weight is missing: {reason}", path=self._path)
