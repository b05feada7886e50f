"""Makes `smollm2-bled`: a page of another request's KV in a request's memory, and nothing stamped.

    pip install '.[transformers]' && python -m examples.bled_smollm2

SmolLM2-135M serves the prompts of `capture_smollm2`. At one step, what it wrote for the answer to one
question is copied over a page of a tale, as a write that comes too late leaves it. The dump of that
moment is one call, without a canary: the digests of all layers, and the bytes of layer 0.

Beside it lies a `tokenizer.json` of the tokens that the dump names, for `verify --tokenizer`; your own
model's has all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from examples.capture_smollm2 import load_model, load_tokenizer, make_manager, prompts_of, serve
from kvaudit.capture import dump
from kvaudit.capture.transformers_cache import recorded_pools
from kvaudit.capture.transformers_engine import EngineHooks, Slots
from kvaudit.formats.reader import read_file

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.generation.continuous_batching import PagedAttentionCache
    from transformers.generation.continuous_batching.continuous_api import ContinuousBatchProcessor

    from kvaudit.capture.forward_row import ForwardRow

NAME: Final = "smollm2-bled"
DUMP_STEP: Final = 30
NEW_TOKENS: Final = 40
# The second page of the tale gets what was written for the answer to another question.
VICTIM: Final = "tale"
VICTIM_PAGE: Final = 1
WRITER: Final = "hamlet"
WRITER_PAGE: Final = 2


class PlainDumps:
    """Dumps an engine's pools where given steps end, in one call each; nothing is stamped.

    Args:
        model: the model that serves.
        steps: the steps, from 1 on.
        write: dumps one pool: see `dump_pool`.
    """

    def __init__(
        self, model: PreTrainedModel, *, steps: Collection[int], write: Callable[[PlainDumps], None]
    ) -> None:
        self.step = 0
        self.live: dict[str, None] = {}
        self._steps = steps
        self._write = write
        self.engine = EngineHooks(follower=self)
        self.engine.hook_model(model)

    @property
    def cache(self) -> PagedAttentionCache:
        """The engine's pools."""
        return self.engine.running.cache

    def dump_pool(self, path: Path, *, content: str = "digests+layer0", **metadata: str) -> None:
        """The call that an engine pastes where a step ends."""
        (pool,) = recorded_pools(self.cache)
        slots = [self.engine.slots_of(name)[pool.name] for name in self.live]
        dump(
            path,
            kv=pool.kv,
            layout=pool.layout,
            page_size=pool.page_size,
            reserved_slots=pool.reserved_slots,
            slots=slots,
            tokens=[self.engine.tokens_of(name) for name in self.live],
            kv_lens=[len(table) for table in slots],
            request_ids=list(self.live),
            content=content,
            rope=self.engine.running.config.to_dict(),
            step=self.step,
            metadata=metadata,
        )

    def end(self) -> None:
        """Leave the engine as it was; what failed within it is raised here."""
        self.engine.remove()
        if self.engine.hooks.failure is not None:
            raise self.engine.hooks.failure

    def attach(self, processor: ContinuousBatchProcessor) -> None:
        """An engine begins to serve."""

    def before_forward(self, rows: Sequence[ForwardRow]) -> None:
        """A forward is prepared."""
        self.live.update(dict.fromkeys(row.request_id for row in rows))

    def after_forward(self) -> None:
        """Its kernels are enqueued."""

    def end_step(self) -> None:
        """The tables are final."""
        self.step += 1
        if self.step in self._steps:
            self._write(self)

    def forget(self, request_id: str) -> None:
        """A request is done."""
        self.live.pop(request_id, None)

    def copy_slots(self, src: Slots, dst: Slots) -> None:
        """Slots are copied."""


def page_of(dumps: PlainDumps, request_id: str, page_idx: int) -> int:
    """Where the engine keeps a page of a request."""
    (pool,) = recorded_pools(dumps.cache)
    slots = dumps.engine.slots_of(request_id)[pool.name]
    return int(slots[page_idx * pool.page_size]) // pool.page_size


@contextmanager
def bled_page(dumps: PlainDumps) -> Iterator[None]:
    """The engine's memory with the writer's page over the victim's, in every layer."""
    (pool,) = recorded_pools(dumps.cache)
    source = page_of(dumps, WRITER, WRITER_PAGE)
    target = page_of(dumps, VICTIM, VICTIM_PAGE)
    kept = {layer: blocks[target].clone() for layer, blocks in pool.kv.items()}
    for blocks in pool.kv.values():
        blocks[target] = blocks[source]
    yield
    for layer, blocks in pool.kv.items():
        blocks[target] = kept[layer]


def write_vocabulary(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """A tokenizer.json of the tokens that the dump's sequences name, no other: the whole has 2 MB."""
    sequences = read_file(str(folder / "full.sequences.arrow"))
    whole = json.loads(tokenizer.backend_tokenizer.to_str())
    special = {token["content"] for token in whole["added_tokens"]}
    ids = sorted(set(np.asarray(sequences.tokens).tolist()))
    words = {tokenizer.convert_ids_to_tokens(token): token for token in ids}
    model = {
        "type": "WordLevel",
        "vocab": {word: token for word, token in words.items() if word not in special},
        "unk_token": "",
    }
    added = [token for token in whole["added_tokens"] if token["content"] in words]
    document = {
        "version": "1.0",
        "added_tokens": added,
        "decoder": whole["decoder"],
        "model": model,
    }
    (folder / "tokenizer.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def capture(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> dict[str, list[int]]:
    """Write the capture; gives the served tokens by request."""

    def write(dumps: PlainDumps) -> None:
        with bled_page(dumps):
            dumps.dump_pool(folder / NAME / "full", model="SmolLM2-135M-Instruct")

    dumps = PlainDumps(model, steps=[DUMP_STEP], write=write)
    prompts = prompts_of(tokenizer)
    outputs = serve(make_manager(model), prompts, dict.fromkeys(prompts, NEW_TOKENS))
    dumps.end()
    write_vocabulary(tokenizer, folder / NAME)
    return outputs


def main() -> None:
    tokenizer = load_tokenizer()
    outputs = capture(load_model(), tokenizer, Path(__file__).parent)
    for request_id, tokens in outputs.items():
        print(f"{request_id}: {tokenizer.decode(tokens)!r}")


if __name__ == "__main__":
    main()
