"""Traces a run of SmolLM2-135M in transformers, for `kvaudit replay`.

    pip install '.[transformers]' && python -m examples.trace_smollm2 traces/smollm2
    kvaudit replay traces/smollm2

Sixteen requests of 16 to 310 new tokens, twelve of them behind one system prompt, share eight places:
they join, leave and share a prefix for over 300 steps. Every 50 steps a dump of digests is taken.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from examples.capture_smollm2 import load_model, load_tokenizer, make_manager, serve
from kvaudit.capture.transformers import record

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DIGESTS_EVERY = 50
QUESTIONS = (
    "What is the capital of France?",
    "How many legs has a spider?",
    "Who wrote Hamlet?",
    "What is two plus two?",
    "Why is the sky blue?",
    "What is the largest ocean?",
    "Who painted the Mona Lisa?",
    "How far away is the moon?",
    "What do bees make?",
    "Which planet is the hottest?",
    "What is water made of?",
    "When does a leap year come?",
)
TEXTS = (
    "Once upon a time, in a village by the sea, there lived",
    "def add(a, b):\n    return",
    "The sun is about 150 million kilometres away from",
    "It was a dark and stormy night, and",
)
# One request lives through the whole run; the others come and go.
NEW_TOKENS = (310, 16, 40, 64, 88, 112, 136, 160, 24, 48, 72, 96, 120, 144, 32, 56)


def prompts_of(tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """Tokens by request id; the questions share the system prompt of the chat template."""
    chats = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
        )
        for question in QUESTIONS
    ]
    texts = [tokenizer(text)["input_ids"] for text in TEXTS]
    return {f"request-{idx}": tokens for idx, tokens in enumerate([*texts, *chats])}


def trace(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> dict[str, list[int]]:
    """Serve the prompts and write the trace; gives the served tokens by request."""
    with record(
        model,
        content="digests",
        trace=folder,
        digests_every=DIGESTS_EVERY,
        metadata={"model": "SmolLM2-135M-Instruct"},
    ):
        prompts = prompts_of(tokenizer)
        new_tokens = dict(zip(prompts, NEW_TOKENS, strict=True))
        return serve(make_manager(model, num_blocks=192), prompts, new_tokens)


if __name__ == "__main__":
    trace(load_model(), load_tokenizer(), Path(sys.argv[1]))
