"""The rotation of layer 0, as a model's configuration gives it: by its old keys or its new ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.model_config import ModelConfig
from kvaudit.core.model_families import Family, family_of
from kvaudit.core.rope import Rope, plain_frequencies

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"
# The turns within the trained length between which YaRN's ramp lies, where no others are given.
_BETA_FAST: Final = 32.0
_BETA_SLOW: Final = 1.0
# Where both ends of the ramp are one, it is this wide.
_LEAST_RAMP: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRope:
    """The rotation of one layer.

    Fields:
        rope: the rotation; None where the configuration does not settle it.
        note: why it does not; "" where it does.
    """

    rope: Rope | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scaling:
    """What a variant of scaling is made of.

    Fields:
        plain: the frequencies without scaling, shape [rotary_dim / 2], float64.
        theta: the base.
        parameters: the object that holds the variant's own numbers.
        trained: the length that the model was trained for before it was scaled, in tokens.
        most: the length that its configuration allows, in tokens.
        longest: the longest sequence that the engine allows, in tokens; None when not known.
    """

    plain: NDArray[np.float64]
    theta: float
    parameters: ModelConfig
    trained: int
    most: int
    longest: int | None

    @property
    def rotary_dim(self) -> int:
        """Elements of a head that turn."""
        return 2 * len(self.plain)


# Frequencies, and the factor on the rotated row.
_Scaled = tuple[NDArray[np.float64], float]


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
    variant = parameters.text("rope_type") or parameters.text("type") or "default"
    scale = _VARIANTS.get(variant)
    if scale is None:
        return LayerRope(rope=None, note=f"the RoPE variant {variant!r} is not known here")
    if variant in _BY_LENGTH and longest is None:
        return LayerRope(
            rope=None,
            note=f"{variant} RoPE scales by the longest sequence that the engine allows, which is "
            "not known: learn the table with --max-length",
        )
    theta = _theta(config, parameters, family=family, kind=kind)
    frequencies, factor = scale(
        _Scaling(
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


def _unscaled(scaling: _Scaling) -> _Scaled:
    return scaling.plain, 1.0


def _linear(scaling: _Scaling) -> _Scaled:
    return scaling.plain / scaling.parameters.number("factor"), 1.0


def _llama3(scaling: _Scaling) -> _Scaled:
    """Slow pairs are slowed by the factor, fast ones not at all, those between in part."""
    factor = scaling.parameters.number("factor")
    low, high = (scaling.parameters.number(f"{end}_freq_factor") for end in ("low", "high"))
    turns = scaling.trained * scaling.plain / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return scaling.plain * (kept + (1 - kept) / factor), 1.0


def _yarn(scaling: _Scaling) -> _Scaled:
    """Pairs of few turns are slowed by the factor, along a ramp over the pairs' numbers."""
    parameters = scaling.parameters
    factor = _given_factor(scaling)
    fast = parameters.number("beta_fast", _BETA_FAST) or _BETA_FAST
    slow = parameters.number("beta_slow", _BETA_SLOW) or _BETA_SLOW
    first, last = (_pair_of_turns(scaling, turns) for turns in (fast, slow))
    if parameters.flag("truncate") or not parameters.has("truncate"):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, scaling.rotary_dim - 1)
    width = last - first or _LEAST_RAMP
    slowed = np.clip((np.arange(len(scaling.plain)) - first) / width, 0, 1)
    return scaling.plain * (1 - slowed + slowed / factor), _yarn_factor(parameters, factor)


def _pair_of_turns(scaling: _Scaling, turns: float) -> float:
    """The number of the pair that makes so many turns over the trained length."""
    ratio = scaling.trained / (turns * 2 * math.pi)
    return scaling.rotary_dim * math.log(ratio) / (2 * math.log(scaling.theta))


def _yarn_factor(parameters: ModelConfig, factor: float) -> float:
    if parameters.has("attention_factor"):
        return parameters.number("attention_factor")

    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    whole, all_dims = (parameters.number(key, 0.0) for key in ("mscale", "mscale_all_dim"))
    return scale(whole) / scale(all_dims) if whole and all_dims else scale(1.0)


def _given_factor(scaling: _Scaling) -> float:
    """The factor of the variant, or else how far the trained length was stretched."""
    return scaling.parameters.number("factor", scaling.most / max(scaling.trained, 1))


def _longrope(scaling: _Scaling) -> _Scaled:
    parameters = scaling.parameters
    is_long = scaling.longest is not None and scaling.longest > scaling.trained
    key = "long_factor" if is_long else "short_factor"
    factors = np.array(parameters.numbers(key), dtype=np.float64)
    if factors.shape != scaling.plain.shape:
        raise parameters.refuse(key, f"a list of {len(scaling.plain)} numbers")
    if parameters.has("attention_factor"):
        return scaling.plain / factors, parameters.number("attention_factor")
    stretched = _given_factor(scaling)
    log = math.log(stretched) / math.log(scaling.trained) if stretched > 1 else 0.0
    return scaling.plain / factors, math.sqrt(1 + log)


def _dynamic(scaling: _Scaling) -> _Scaled:
    """The base grows with the longest sequence."""
    factor, dim = scaling.parameters.number("factor"), scaling.rotary_dim
    length = max(scaling.longest or 0, scaling.most)
    grown = factor * length / max(scaling.most, 1) - (factor - 1)
    theta = scaling.theta * grown ** (dim / (dim - 2))
    return plain_frequencies(theta=theta, rotary_dim=dim), 1.0


_VARIANTS: Final[dict[str, Callable[[_Scaling], _Scaled]]] = {
    "default": _unscaled,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
}
_BY_LENGTH: Final = ("dynamic", "longrope", "su")
