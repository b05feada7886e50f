"""SmolLM2-135M, loaded once a test session: it takes seconds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from examples.capture_smollm2 import load_model, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@cache
def smollm2() -> PreTrainedModel:
    """The model of the captures in `examples`, in bfloat16."""
    return load_model()


@cache
def smollm2_tokenizer() -> PreTrainedTokenizerBase:
    """Its tokenizer."""
    return load_tokenizer()
