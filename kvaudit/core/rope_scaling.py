"""The frequencies of a rotation under each way to stretch a model's context."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.model_config import ModelConfig
from kvaudit.core.rope import plain_frequencies

# The turns within the trained length between which YaRN's ramp lies, where no others are given.
_BETA_FAST: Final = 32.0
_BETA_SLOW: Final = 1.0
# Where both ends of the ramp are one, it is this wide.
_LEAST_RAMP: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
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
Scaled = tuple[NDArray[np.float64], float]


def _unscaled(scaling: Scaling) -> Scaled:
    return scaling.plain, 1.0


def _linear(scaling: Scaling) -> Scaled:
    return scaling.plain / scaling.parameters.number("factor"), 1.0


def _llama3(scaling: Scaling) -> Scaled:
    """Slow pairs are slowed by the factor, fast ones not at all, those between in part."""
    factor = scaling.parameters.number("factor")
    low, high = (scaling.parameters.number(f"{end}_freq_factor") for end in ("low", "high"))
    turns = scaling.trained * scaling.plain / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return scaling.plain * (kept + (1 - kept) / factor), 1.0


def _yarn(scaling: Scaling) -> Scaled:
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


def _pair_of_turns(scaling: Scaling, turns: float) -> float:
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


def _given_factor(scaling: Scaling) -> float:
    """The factor of the variant, or else how far the trained length was stretched."""
    return scaling.parameters.number("factor", scaling.most / max(scaling.trained, 1))


def _longrope(scaling: Scaling) -> Scaled:
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


def _dynamic(scaling: Scaling) -> Scaled:
    """The base grows with the longest sequence."""
    factor, dim = scaling.parameters.number("factor"), scaling.rotary_dim
    length = max(scaling.longest or 0, scaling.most)
    grown = factor * length / max(scaling.most, 1) - (factor - 1)
    theta = scaling.theta * grown ** (dim / (dim - 2))
    return plain_frequencies(theta=theta, rotary_dim=dim), 1.0


VARIANTS: Final[dict[str, Callable[[Scaling], Scaled]]] = {
    "default": _unscaled,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
}
BY_LENGTH: Final = ("dynamic", "longrope", "su")
