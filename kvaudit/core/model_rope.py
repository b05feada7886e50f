"""The rotation of layer 0, as a model's configuration gives it: by its old keys or its new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kvaudit.core.model_config import ModelConfig
from kvaudit.core.model_families import Family, family_of
from kvaudit.core.rope import Rope, plain_frequencies
from kvaudit.core.rope_scaling import BY_LENGTH, VARIANTS, Scaling

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRope:
    """The rotation of one layer.

    Fields:
        rope: the rotation; None where the configuration does not settle it.
        note: why it does not; "" where it does.
    """

    rope: Rope | None
    note: str = ""


def rope_of(values: Mapping[str, Any], *, longest: int | None = None) -> LayerRope:
    """The rotation of K in layer 0 of a model.

    Args:
        values: its configuration, as `config.json` has it.
        longest: the longest sequence that the engine allows, by which two variants scale; None when
            not known.

    Raises:
        SchemaMismatch: a number is missing, or is none.
        ModelNotApplicable: the family is not known.
    """
    config = text_config(ModelConfig(values))
    family = family_of(config.text("model_type"), path="")
    return layer0_rope(config, family, head_dim=head_dim_of(config), longest=longest)


def text_config(config: ModelConfig) -> ModelConfig:
    """The configuration of a model's text part; the same where it has no other."""
    return config.section("text_config") or config


def head_dim_of(config: ModelConfig) -> int:
    """Elements of a head.

    Raises:
        SchemaMismatch: the configuration does not say.
    """
    if config.has("head_dim"):
        return config.count("head_dim")
    return max(1, config.count("hidden_size") // config.count("num_attention_heads"))


def layer0_rope(
    config: ModelConfig, family: Family, *, head_dim: int, longest: int | None = None
) -> LayerRope:
    """The rotation of K in layer 0.

    Args:
        config: the configuration of the text model.
        family: its family.
        head_dim: elements of a head.
        longest: the longest sequence that the engine allows, by which two variants scale.

    Raises:
        SchemaMismatch: a number is missing, or is none.
    """
    if config.first("no_rope_layers") == 0:
        still = Rope(inverse_frequencies=np.zeros(head_dim // 2), head_dim=head_dim)
        return LayerRope(rope=still)
    kind = _layer0_kind(config, family)
    parameters = _parameters(config, family, kind=kind)
    if parameters.has("mrope_section"):
        return LayerRope(rope=None, note="multimodal RoPE: an image shifts the positions behind it")
    if config.has("dual_chunk_attention_config"):
        return LayerRope(rope=None, note="dual chunk attention rotates K by its place in a chunk")
    variant = parameters.text("rope_type") or parameters.text("type") or "default"
    scale = VARIANTS.get(variant)
    if scale is None:
        return LayerRope(rope=None, note=f"the RoPE variant {variant!r} is not known here")
    if variant in BY_LENGTH and longest is None:
        return LayerRope(
            rope=None,
            note=f"{variant} RoPE scales by the longest sequence that the engine allows, which is "
            "not known: learn the table with --max-length",
        )
    theta = _theta(config, parameters, family=family, kind=kind)
    frequencies, factor = scale(
        Scaling(
            plain=plain_frequencies(
                theta=theta,
                rotary_dim=int(head_dim * _rotary_share(config, parameters, family)),
            ),
            theta=theta,
            parameters=parameters,
            trained=_trained(config, parameters),
            most=config.count("max_position_embeddings", 0),
            longest=longest,
        )
    )
    rope = Rope(
        inverse_frequencies=frequencies, head_dim=head_dim, layout=family.layout, factor=factor
    )
    return LayerRope(rope=rope)


def _layer0_kind(config: ModelConfig, family: Family) -> str:
    """What layer 0 attends to, by which some families choose their base."""
    kind = config.first("layer_types")
    if isinstance(kind, str):
        return kind
    # One layer in so many attends to everything, the last of them.
    has_local = family.local_theta is not None and config.count("sliding_window_pattern", 6) > 1
    return SLIDING if has_local else FULL


def _parameters(config: ModelConfig, family: Family, *, kind: str) -> ModelConfig:
    """The object with the numbers of layer 0's variant; an empty one where there is no scaling."""
    found = config.section("rope_parameters")
    if found is not None:
        return found.section(kind) or found
    is_local = family.local_theta is not None and kind == SLIDING
    scaling = None if is_local else config.section("rope_scaling")
    return scaling or ModelConfig({}, path=config.path)


def _theta(config: ModelConfig, parameters: ModelConfig, *, family: Family, kind: str) -> float:
    if parameters.has("rope_theta"):
        return parameters.number("rope_theta")
    if family.local_theta is not None and kind == SLIDING:
        return config.number("rope_local_base_freq", family.local_theta)
    return config.number("rope_theta", config.number("rotary_emb_base", family.theta))


def _rotary_share(config: ModelConfig, parameters: ModelConfig, family: Family) -> float:
    for source in (parameters, config):
        for key in ("partial_rotary_factor", "rotary_pct"):
            if source.has(key):
                return source.number(key)
    return family.rotary_share


def _trained(config: ModelConfig, parameters: ModelConfig) -> int:
    most = config.count("max_position_embeddings", 0)
    inner = parameters.count("original_max_position_embeddings", most)
    return config.count("original_max_position_embeddings", inner)
