"""Models of many families in the real transformers classes: random weights, one layer, saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

NUM_TOKENS = 300
_SHAPE = {
    "vocab_size": NUM_TOKENS,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


@dataclass(frozen=True, kw_only=True)
class ModelCase:
    """A family, or a variant of one.

    Fields:
        architecture: the start of the classes' names, `Qwen2` for Qwen2Config.
        settings: of its configuration, beside a small shape.
        config: the configuration's class, where its name starts otherwise.
    """

    architecture: str
    settings: dict[str, Any] = field(default_factory=dict)
    config: str = ""


def _rope(kind: str, theta: float = 10_000.0, **numbers: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **numbers}}


CASES = {
    "llama": ModelCase(architecture="Llama"),
    "llama-bias": ModelCase(architecture="Llama", settings={"attention_bias": True}),
    "llama3-scaled": ModelCase(
        architecture="Llama",
        settings=_rope(
            "llama3",
            5e5,
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    ),
    "linear-scaled": ModelCase(architecture="Llama", settings=_rope("linear", factor=4.0)),
    "dynamic": ModelCase(
        architecture="Llama",
        settings={"max_position_embeddings": 64, **_rope("dynamic", factor=4.0)},
    ),
    "yarn": ModelCase(
        architecture="Qwen2",
        settings=_rope("yarn", factor=4.0, original_max_position_embeddings=128),
    ),
    "yarn-mscale": ModelCase(
        architecture="Llama",
        settings=_rope(
            "yarn",
            factor=8.0,
            original_max_position_embeddings=64,
            mscale=0.7,
            mscale_all_dim=1.0,
            beta_fast=20,
            beta_slow=2,
        ),
    ),
    "mistral": ModelCase(architecture="Mistral", settings={"head_dim": 32}),
    "mixtral": ModelCase(architecture="Mixtral", settings={"num_local_experts": 2}),
    "qwen2": ModelCase(architecture="Qwen2"),
    "qwen2-moe": ModelCase(architecture="Qwen2Moe", settings={"num_experts": 4}),
    "qwen3": ModelCase(architecture="Qwen3", settings={"head_dim": 32}),
    "qwen3-moe": ModelCase(
        architecture="Qwen3Moe",
        settings={"head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2},
    ),
    "ministral": ModelCase(architecture="Ministral", settings={"head_dim": 16}),
    "seed-oss": ModelCase(architecture="SeedOss", settings={"head_dim": 16}),
    "gpt-oss": ModelCase(
        architecture="GptOss",
        settings={
            "head_dim": 16,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "sliding_window": 512,
        },
    ),
    "smollm3": ModelCase(architecture="SmolLM3"),
    "smollm3-nope": ModelCase(
        architecture="SmolLM3", settings={"no_rope_layers": [0], "layer_types": ["full_attention"]}
    ),
    "granite": ModelCase(architecture="Granite", settings={"embedding_multiplier": 12.0}),
    "phi3": ModelCase(architecture="Phi3"),
    "phi3-longrope": ModelCase(
        architecture="Phi3",
        settings={
            "original_max_position_embeddings": 100,
            **_rope(
                "longrope",
                short_factor=[1.0 + 0.1 * pair for pair in range(8)],
                long_factor=[2.0 + 0.3 * pair for pair in range(8)],
            ),
        },
    ),
    "gemma": ModelCase(architecture="Gemma", settings={"head_dim": 16}),
    "gemma2": ModelCase(architecture="Gemma2", settings={"head_dim": 16}),
    "gemma3": ModelCase(
        architecture="Gemma3", config="Gemma3TextConfig", settings={"head_dim": 16}
    ),
    "glm": ModelCase(architecture="Glm", settings={"head_dim": 16}),
    "glm4": ModelCase(architecture="Glm4", settings={"head_dim": 16}),
    "olmo2": ModelCase(architecture="Olmo2"),
    "olmo3": ModelCase(architecture="Olmo3"),
    "phi": ModelCase(architecture="Phi"),
    "stablelm": ModelCase(architecture="StableLm", settings={"use_qkv_bias": True}),
    "gpt-neox": ModelCase(architecture="GPTNeoX", settings={"num_key_value_heads": 4}),
    "starcoder2": ModelCase(architecture="Starcoder2"),
    "cohere": ModelCase(architecture="Cohere", settings={"use_qk_norm": True}),
}


@dataclass(frozen=True, kw_only=True)
class Layer0Cache:
    """What a forward pass leaves in layer 0, for a sequence from position 0 on.

    Fields:
        tokens: the sequence, shape [n], int64.
        k: K as cached, shape [n, heads, head_dim], float32.
        v: V likewise.
    """

    tokens: np.ndarray
    k: np.ndarray
    v: np.ndarray


def save_model(case: ModelCase, folder: Path, *, dtype: torch.dtype, **options: Any) -> None:
    """Random weights, with norms and biases that are far from doing nothing."""
    import transformers

    torch.manual_seed(1)
    config = getattr(transformers, case.config or f"{case.architecture}Config")
    model = _model_class(case)(config(**{**_SHAPE, **case.settings}))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                weight.add_(torch.randn_like(weight) * 0.3)
            else:
                weight.normal_(0, 0.3)
    model.to(dtype).save_pretrained(folder, **options)


def layer0_cache(
    case: ModelCase, folder: Path, *, dtype: torch.dtype, **options: Any
) -> Layer0Cache:
    """One forward pass of every token, in an order without sense."""
    model = _model_class(case).from_pretrained(folder, dtype=dtype, **options).eval()
    tokens = torch.from_numpy(np.random.default_rng(3).permutation(NUM_TOKENS))
    with torch.no_grad():
        cache = model(tokens[None], use_cache=True).past_key_values
    k, v = (
        half[0].transpose(0, 1).float().numpy()
        for half in (cache.layers[0].keys, cache.layers[0].values)
    )
    return Layer0Cache(tokens=tokens.numpy(), k=k, v=v)


def _model_class(case: ModelCase) -> Any:
    import transformers

    return getattr(transformers, f"{case.architecture}ForCausalLM")
