"""Runs of SmolLM2-135M that differ in all that may move a layer-0 row, dumped with nothing stamped.

They differ in the element type, how prompts are cut into chunks, how many requests share a forward,
the prefixes that requests share, lengths, texts and moments. What is wrong in none of them is theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from examples.bled_smollm2 import PlainDumps
from examples.capture_smollm2 import GGUF_FILE, make_manager, serve, weights_folder
from tests.helpers.smollm2 import smollm2_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NUM_RUNS = 20
MODEL = "SmolLM2-135M-Instruct"
TEXT = Path(__file__).parents[2] / "LICENSE"
QUESTIONS = (
    "What is the capital of France?",
    "How many legs has a spider?",
    "Who wrote Hamlet?",
    "Why is the sky blue?",
    "Write a haiku about the sea.",
    "Explain recursion to a child.",
)


@dataclass(frozen=True, kw_only=True)
class PlainRun:
    """How one run goes.

    Fields:
        seed: chooses texts and lengths.
        dtype: element type of the model and of its cache.
        max_batch_tokens: tokens of a forward: longer prompts are run in chunks.
        max_requests: requests of a forward.
        prefix_len: tokens that all requests share, at the head of each.
        num_requests: requests in all.
        new_tokens: tokens that each generates, at most.
        dump_steps: the steps that are dumped where they end: prompts are half run in the first.
    """

    seed: int
    dtype: torch.dtype
    max_batch_tokens: int
    max_requests: int
    prefix_len: int
    num_requests: int
    new_tokens: int
    dump_steps: tuple[int, ...]

    @property
    def name(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return f"run-{self.seed:02}-{kind}"


def plain_run(seed: int) -> PlainRun:
    """The run of a seed: every other one in float32."""
    rng = np.random.default_rng(seed)
    new_tokens = int(rng.integers(12, 28))
    late = new_tokens - int(rng.integers(2, 8))
    return PlainRun(
        seed=seed,
        dtype=(torch.bfloat16, torch.float32)[seed % 2],
        max_batch_tokens=int(rng.choice([24, 64, 160])),
        max_requests=int(rng.integers(2, 9)),
        prefix_len=int(rng.choice([0, 16, 40])),
        num_requests=int(rng.integers(4, 11)),
        new_tokens=new_tokens,
        dump_steps=(2, late // 2, late),
    )


@cache
def model_of(dtype: torch.dtype) -> PreTrainedModel:
    """SmolLM2, loaded once a type."""
    return AutoModelForCausalLM.from_pretrained(
        weights_folder(), gguf_file=GGUF_FILE, dtype=dtype, local_files_only=True
    )


def prompts_of(run: PlainRun) -> dict[str, list[int]]:
    """Passages of a licence, questions, and a few tokens at random, behind one prefix."""
    rng = np.random.default_rng([run.seed, 1])
    tokenizer = smollm2_tokenizer()
    text = tokenizer(TEXT.read_text(encoding="utf-8"))["input_ids"]
    prefix = _passage(rng, text, run.prefix_len)
    prompts = {}
    for number in range(run.num_requests):
        kind = rng.integers(3)
        if kind == 0:
            tokens = _passage(rng, text, int(rng.integers(10, 120)))
        elif kind == 1:
            question = [{"role": "user", "content": str(rng.choice(QUESTIONS))}]
            tokens = tokenizer.apply_chat_template(
                question, add_generation_prompt=True, return_dict=False
            )
        else:
            tokens = rng.integers(0, 49152, int(rng.integers(3, 40))).tolist()
        prompts[f"r{number}"] = [*prefix, *tokens]
    return prompts


def dump_run(run: PlainRun, folder: Path) -> list[Path]:
    """Serve a run and dump it; gives the folders of its dumps, whose names are its steps."""
    folders: list[Path] = []

    def write(dumps: PlainDumps) -> None:
        folders.append(folder / run.name / f"step-{dumps.step:06}")
        dumps.dump_pool(folders[-1] / "full", model=MODEL)

    model = model_of(run.dtype)
    dumps = PlainDumps(model, steps=run.dump_steps, write=write)
    manager = make_manager(
        model,
        max_requests=run.max_requests,
        max_batch_tokens=run.max_batch_tokens,
        num_blocks=128,
    )
    prompts = prompts_of(run)
    serve(manager, prompts, dict.fromkeys(prompts, run.new_tokens))
    dumps.end()
    return folders


def _passage(rng: np.random.Generator, text: Sequence[int], length: int) -> list[int]:
    first = int(rng.integers(0, len(text) - length))
    return list(text[first : first + length])
