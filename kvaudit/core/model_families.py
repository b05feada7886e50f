"""What the families of models do between the embedding and the cache of layer 0."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvaudit.core.rope import RopeLayout
from kvaudit.errors import ModelNotApplicable


class Norm(StrEnum):
    """What stands before the projections of layer 0, and after that of K where K has a norm.

    RMS: x / rms(x), rounded, times the weight. RMS_ONCE: the same, rounded once, at the end.
    RMS_PLUS_ONE: x / rms(x) times (1 + weight), rounded once. LAYER: with the mean taken off, weight
    and bias where there are any. NONE: nothing.
    """

    RMS = "rms"
    RMS_ONCE = "rms once"
    RMS_PLUS_ONE = "rms plus one"
    LAYER = "layer"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family.

    Fields:
        norm: the norm before the projections.
        k_norm: the norm of K, in models that have one; None = computed as that one.
        eps_key: the key of the norm's epsilon in the configuration.
        scales_embedding: whether the embedding is multiplied by the root of the hidden size.
        layout: which elements of a head turn together.
        rotary_share: the part of a head that turns, where the configuration does not say.
        theta: the base of the rotation, where the configuration does not say.
        local_theta: the base of layers with a sliding window, where they have one of their own.
    """

    norm: Norm = Norm.RMS
    k_norm: Norm | None = None
    eps_key: str = "rms_norm_eps"
    scales_embedding: bool = False
    layout: RopeLayout = RopeLayout.HALF
    rotary_share: float = 1.0
    theta: float = 10_000.0
    local_theta: float | None = None


_LLAMA: Final = Family()
_GEMMA: Final = Family(norm=Norm.RMS_PLUS_ONE, scales_embedding=True)
_GLM: Final = Family(layout=RopeLayout.INTERLEAVED, rotary_share=0.5)

FAMILIES: Final = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "ministral": _LLAMA,
    "mixtral": Family(theta=1e6),
    "qwen2": _LLAMA,
    "qwen2_moe": _LLAMA,
    "qwen3": _LLAMA,
    "qwen3_moe": _LLAMA,
    "smollm3": Family(theta=2e6),
    "seed_oss": _LLAMA,
    "gpt_oss": Family(norm=Norm.RMS_ONCE, theta=150_000.0),
    "phi3": _LLAMA,
    "granite": _LLAMA,
    "gemma": _GEMMA,
    "gemma2": _GEMMA,
    "gemma3_text": Family(
        norm=Norm.RMS_PLUS_ONE, scales_embedding=True, theta=1e6, local_theta=10_000.0
    ),
    "glm": _GLM,
    "glm4": _GLM,
    "olmo2": Family(norm=Norm.NONE, k_norm=Norm.RMS_ONCE),
    "olmo3": Family(norm=Norm.NONE, k_norm=Norm.RMS_ONCE, theta=5e5),
    "phi": Family(norm=Norm.LAYER, eps_key="layer_norm_eps", rotary_share=0.5),
    "stablelm": Family(norm=Norm.LAYER, eps_key="layer_norm_eps", rotary_share=0.25),
    "gpt_neox": Family(norm=Norm.LAYER, eps_key="layer_norm_eps", rotary_share=0.25),
    "starcoder2": Family(norm=Norm.LAYER, eps_key="norm_epsilon"),
    "cohere": Family(
        norm=Norm.LAYER, eps_key="layer_norm_eps", layout=RopeLayout.INTERLEAVED, theta=5e5
    ),
}

# Why a family that is not among them has no such table.
_REASONS: Final = {
    "bert": "K and V are of no decoder",
    "bloom": "the embedding is normed first, and positions are biases of the attention (ALiBi)",
    "deepseek_v2": "the cache holds latent rows (MLA)",
    "deepseek_v3": "the cache holds latent rows (MLA)",
    "gpt2": "learned absolute positions are added to the embedding",
    "gpt_bigcode": "learned absolute positions are added to the embedding",
    "gpt_neo": "learned absolute positions are added to the embedding",
    "mamba": "layer 0 is no attention layer",
    "mamba2": "layer 0 is no attention layer",
    "opt": "learned absolute positions are added to the embedding",
    "qwen3_next": "layer 0 is no attention layer",
    "rwkv": "layer 0 is no attention layer",
}


def family_of(model_type: str, *, path: str) -> Family:
    """The family of a configuration's model_type.

    Raises:
        ModelNotApplicable: its layer 0 is not known here, or is no function of token and position.
    """
    family = FAMILIES.get(model_type)
    if family is None:
        reason = _REASONS.get(model_type, "what its layer 0 computes is not known here")
        raise not_applicable(f"the family {model_type!r}: {reason}", path=path)
    return family


def not_applicable(reason: str, *, path: str) -> ModelNotApplicable:
    """The error for a model whose table is not made, with why."""
    return ModelNotApplicable(
        f"not applicable: {reason}",
        path=path or None,
        hint="audit its dumps without a table, or learn one of dumps: kvaudit learn DUMP -o FILE",
    )
