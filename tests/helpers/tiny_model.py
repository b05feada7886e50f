"""Models with random weights that serve in no time, and what they serve."""

from __future__ import annotations

from typing import Any

import torch

WINDOW = 24
TINY_PROMPTS = {"a": list(range(40, 77)), "b": list(range(90, 101)), "c": [7, 8, 9]}
TINY_TOKENS = {"a": 9, "b": 20, "c": 12}


def tiny_model(**settings: Any) -> Any:
    """A model with random weights that serves in no time."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(5)
    config = Qwen2Config(
        **{
            "vocab_size": 500,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 256,
            **settings,
        }
    )
    return Qwen2ForCausalLM(config).to(torch.bfloat16)


def sliding_model() -> Any:
    """One layer of full attention, two of a sliding window."""
    kinds = ["full_attention", "sliding_attention", "sliding_attention"]
    return tiny_model(
        num_hidden_layers=3, layer_types=kinds, use_sliding_window=True, sliding_window=WINDOW
    )
