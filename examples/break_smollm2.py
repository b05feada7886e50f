"""Breaks the KV cache of SmolLM2-135M while it serves, and lets `kvaudit verify` say what broke.

    pip install '.[transformers]' && python -m examples.break_smollm2 --fault page-swap

Eight prompts are served twice, greedily: once as they are, and once with a fault in the engine's own
cache after step 12, in the middle of the generation. Four steps later the pool is dumped. What is
printed is the text of both runs, where it differs, and the report on the dump, which stays in
--dumps for the commands that the report ends with. Without --fault there is one such run for each.

The faults are in the tensors and the block tables of transformers' paged cache; the recorder that
stamps the KV is told nothing of them.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from examples.capture_smollm2 import load_model, load_tokenizer, make_manager, prompts_of, serve
from kvaudit.capture.recorder import Recorder
from kvaudit.capture.transformers import record
from kvaudit.capture.transformers_cache import recorded_pools
from kvaudit.cli.entry import run as kvaudit

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.generation.continuous_batching.cache import PagedAttentionCache

# Six of eight requests run at once, so that the others get pages which were in use before.
MAX_REQUESTS: Final = 6
NEW_TOKENS: Final = 24
FINISHES_EARLY, ITS_NEW_TOKENS = "sum", 6
# That request is still running then, and has so many slots of its prompt in its last page.
LATE_STEP, LATE_SLOTS = 5, 4
# Its last page is another's by then.
FAULT_STEP: Final = 12
DUMP_STEP: Final = 16
DUMPS: Final = Path("dumps/smollm2-broken")


class Engine:
    """What a fault gets hold of.

    Args:
        cache: the engine's.
    """

    def __init__(self, cache: PagedAttentionCache) -> None:
        self.cache = cache
        (self._allocator,) = cache.cache_allocators.values()
        (pool,) = recorded_pools(cache)
        # Each is [page, K or V, slot, head, dim].
        self.layers: list[torch.Tensor] = list(dict(pool.kv).values())
        self.late_page = 0
        self.late_content: list[torch.Tensor] = []

    def table(self, request_id: str) -> list[int]:
        """The pages of a request, as the engine reads and writes them."""
        table: list[int] = self._allocator.block_table[request_id]
        return table

    def begin_late_write(self) -> None:
        """What a request has in its last page goes out, and comes back when it is done."""
        self.late_page = self.table(FINISHES_EARLY)[-1]
        self.late_content = [kv[self.late_page, :, :LATE_SLOTS].clone() for kv in self.layers]


def page_swap(engine: Engine) -> None:
    """The first pages of two requests change places in their block tables."""
    one, other = engine.table("tale"), engine.table("code")
    one[0], other[0] = other[0], one[0]


def late_writer(engine: Engine) -> None:
    """A write of a request that is done lands in its last page, which another request has now."""
    for kv, content in zip(engine.layers, engine.late_content, strict=True):
        kv[engine.late_page, :, :LATE_SLOTS] = content


def zero_tail(engine: Engine) -> None:
    """All pages of a request but its first two are zero, as if no more of them had arrived."""
    pages = engine.table("capital")[2:]
    for kv in engine.layers:
        kv[pages] = 0


def foreign_prefix(engine: Engine) -> None:
    """The engine copies a page as for a forked request, but from the wrong parent."""
    (name,) = engine.cache.cache_allocators
    source, target = engine.table("tale")[0], engine.table("code")[0]
    engine.cache.perform_cache_copy({name: ([source], [target])})


def torn_row(engine: Engine) -> None:
    """A request's first slot is overtaken by another write: two heads of three are another's."""
    page, other = engine.table("tale")[0], engine.table("code")[0]
    for kv in engine.layers:
        kv[page, :, 0, 1:] = kv[other, :, 0, 1:]


# The rule that names each fault.
FAULTS: Final[Mapping[Callable[[Engine], None], str]] = {
    page_swap: "KV205",
    late_writer: "KV203",
    zero_tail: "KV302",
    foreign_prefix: "KV202",
    torn_row: "KV303",
}
BY_NAME: Final = {fault.__name__.replace("_", "-"): fault for fault in FAULTS}


def serve_and_break(
    model: PreTrainedModel,
    prompts: Mapping[str, Sequence[int]],
    *,
    fault: Callable[[Engine], None] | None,
    dump: Path,
) -> dict[str, list[int]]:
    """Serve with a fault, or without any, and dump; gives the served tokens by request."""
    engines: list[Engine] = []

    def after_step(recorder: Recorder) -> None:
        if not engines:
            engines.append(Engine(manager.batch_processor.cache))
        (engine,) = engines
        if recorder.step == LATE_STEP:
            engine.begin_late_write()
        if recorder.step == FAULT_STEP and fault is not None:
            fault(engine)
        if recorder.step == DUMP_STEP:
            recorder.dump(dump)

    with record(model, on_step=after_step, metadata={"model": "SmolLM2-135M-Instruct"}):
        manager = make_manager(model, max_requests=MAX_REQUESTS)
        new_tokens = dict.fromkeys(prompts, NEW_TOKENS) | {FINISHES_EARLY: ITS_NEW_TOKENS}
        return serve(manager, prompts, new_tokens)


def changed_texts(
    tokenizer: PreTrainedTokenizerBase,
    before: Mapping[str, Sequence[int]],
    after: Mapping[str, Sequence[int]],
) -> dict[str, tuple[str, str]]:
    """Both texts of each request whose text is not the same."""
    return {
        name: (tokenizer.decode(tokens), tokenizer.decode(after[name]))
        for name, tokens in before.items()
        if list(tokens) != list(after[name])
    }


def main(args: Sequence[str]) -> None:
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description="Break the KV cache of SmolLM2 while it serves.")
    parser.add_argument("--fault", choices=[*BY_NAME], help="one of them; all by default")
    parser.add_argument("--dumps", type=Path, default=DUMPS, help="folder of the dumps")
    options = parser.parse_args(args)
    model, tokenizer = load_model(), load_tokenizer()
    prompts = prompts_of(tokenizer)
    folder = options.dumps
    sound = serve_and_break(model, prompts, fault=None, dump=folder / "sound")
    for name in [options.fault] if options.fault else BY_NAME:
        broken = serve_and_break(model, prompts, fault=BY_NAME[name], dump=folder / name)
        changed = changed_texts(tokenizer, sound, broken)
        print(f"\n{name}: {BY_NAME[name].__doc__}\n")
        for request_id, (before, after) in changed.items():
            print(f"{request_id}, sound:  {before!r}\n{request_id}, broken: {after!r}")
        print(f"the text of the other {len(prompts) - len(changed)} requests is the same\n")
        kvaudit(["verify", str(folder / name)])


if __name__ == "__main__":
    main(sys.argv[1:])
