"""Runs the canary beside SmolLM2-135M in transformers, and shows what it costs and what it finds.

    pip install '.[transformers]' && python -m examples.live_transformers

Two engines serve the same eight prompts, five of which share a prefix, one of them with a canary
beside it. They take turns step by step, so that whatever else the machine does meets both: the text
is the same, and the step times stand side by side. With --fault one slot of the watched engine is
overwritten while its request runs, `kv` by a bit of K in layer 17, `record` by the record of
another token:

    python -m examples.live_transformers --fault kv --dumps dumps
    python -m examples.live_transformers --fault record

The canary's warnings are the frozen lines that log parsers know. With --dumps the flight recorder
writes what the violation concerns, and `kvaudit verify` explains it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import torch

from examples.capture_smollm2 import (
    Damage,
    flip_bit,
    load_model,
    load_tokenizer,
    make_manager,
    prompts_of,
    slot_of,
)
from kvaudit.capture.live_canary import LiveCanary
from kvaudit.capture.live_transformers import watch
from kvaudit.cli.entry import run as kvaudit
from kvaudit.constants import RECORD_TOKEN, RealKvHashMode
from kvaudit.runner.live import CanaryConfig, CanaryMode

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FAULT_STEP = 13
BROKEN = Damage(half=0)


class Engine:
    """An engine without a thread of its own: whoever has it makes its steps.

    Fields:
        texts: served tokens by request.
        step_ms: milliseconds of each step.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._manager = make_manager(model)
        self._processor = self._manager._create_batch_processor()  # noqa: SLF001 - to make its steps
        self._manager.batch_processor, self._manager.current_batch = self._processor, 0
        self.cache = self._processor.cache
        self.texts: dict[str, list[int]] = {}
        self.step_ms: list[float] = []

    def add(self, prompts: Mapping[str, Sequence[int]], new_tokens: int) -> None:
        """Queue requests; every other one is done halfway, and what is cached of it is swept."""
        for number, (request_id, tokens) in enumerate(prompts.items()):
            self._manager.add_request(
                list(tokens), request_id=request_id, max_new_tokens=new_tokens // (1 + number % 2)
            )

    def step(self) -> None:
        """One step, from the schedule to the sampled tokens."""
        start = time.perf_counter()
        self._manager._generation_loop_body(self._processor, bootstrapping=False)  # noqa: SLF001
        self.step_ms.append(1e3 * (time.perf_counter() - start))
        while (output := self._manager.get_result()) is not None:
            self.texts[output.request_id] = output.generated_tokens


@dataclass
class SideBySide:
    """What two engines did, of which the second was watched.

    Fields:
        plain: the one without a canary.
        watched: the one with it.
        canary: what watched it.
        slot: what was overwritten; None = nothing.
    """

    plain: Engine
    watched: Engine
    canary: LiveCanary
    slot: int | None = None

    @property
    def added_ms(self) -> float:
        """What the canary adds to a step: the median over pairs of steps."""
        pairs = zip(self.plain.step_ms, self.watched.step_ms, strict=True)
        return median(beside - without for without, beside in pairs)

    def lines(self) -> list[str]:
        """What to print."""
        is_same = "the same" if self.plain.texts == self.watched.texts else "NOT the same"
        without = median(self.plain.step_ms)
        return [
            f"without the canary  {without:8.2f} ms a step",
            f"the canary adds     {self.added_ms:8.2f} ms  {self.added_ms / without:+.1%}",
            f"the text of {len(self.plain.texts)} requests is {is_same}",
        ]


def serve_side_by_side(
    model: PreTrainedModel,
    prompts: Mapping[str, Sequence[int]],
    *,
    config: CanaryConfig,
    rounds: int = 1,
    new_tokens: int = 48,
    dumps: Path | None = None,
    fault: str | None = None,
) -> SideBySide:
    """Serve the prompts so many times with both engines."""
    attention = model.config._attn_implementation  # noqa: SLF001 - a manager that starts puts it back
    plain = Engine(model)
    with watch(model, config=config, dumps=dumps) as canary:
        both = SideBySide(plain=plain, watched=Engine(model), canary=canary)
        for _ in range(rounds):
            for engine in (plain, both.watched):
                engine.texts.clear()
                engine.add(prompts, new_tokens)
            while len(both.watched.texts) < len(prompts):
                # Who is first finds the caches of the processor as the other one left them.
                turns = (plain, both.watched)
                for engine in turns if canary.step % 2 else reversed(turns):
                    engine.step()
                if fault is not None and canary.step == FAULT_STEP:
                    both.slot = overwrite(fault, both)
    model.set_attn_implementation(attention)
    return both


def overwrite(fault: str, both: SideBySide) -> int:
    """Damage a slot of the watched engine; gives the slot."""
    if fault == "kv":
        return flip_bit(both.watched.cache, BROKEN)
    slot = slot_of(both.watched.cache, BROKEN)
    records = both.canary.pools["FULL"].records["k.tail"]
    records.view(torch.int64)[slot, RECORD_TOKEN] += 1
    return slot


def parsed(args: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The canary beside SmolLM2 in transformers.")
    parser.add_argument("--rounds", type=int, default=4, help="times that the prompts are served")
    parser.add_argument("--new-tokens", type=int, default=48, help="tokens served a request")
    parser.add_argument("--hash", choices=["none", "partial", "all"], help="KV bytes to hash")
    parser.add_argument("--fault", choices=["kv", "record"], help="overwrite a slot")
    parser.add_argument("--dumps", type=Path, help="folder of the flight recorder's dumps")
    options = parser.parse_args(args)
    # A changed bit of K is seen only by who hashes it.
    options.hash = options.hash or ("all" if options.fault == "kv" else "none")
    return options


def main(args: Sequence[str]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)
    options = parsed(args)
    config = CanaryConfig(
        mode=CanaryMode.DUMP if options.dumps else CanaryMode.LOG,
        real_kv_hash_mode=RealKvHashMode[options.hash.upper()],
        sweep_interval=20,
        stats_print_every_n_steps=50,
    )
    model, prompts = load_model(), prompts_of(load_tokenizer())
    if options.fault is None:
        # What runs for the first time compiles, of the engine and of the canary.
        serve_side_by_side(model, prompts, config=config, new_tokens=4)
    both = serve_side_by_side(
        model,
        prompts,
        config=config,
        rounds=1 if options.fault else options.rounds,
        new_tokens=options.new_tokens,
        dumps=options.dumps,
        fault=options.fault,
    )
    if options.fault is None:
        print("\n".join(both.lines()))
        return
    print(f"slot {both.slot} was overwritten after step {FAULT_STEP}")
    print(
        f"{len(both.watched.texts)} requests were served to their end, at step {both.canary.step}"
    )
    if options.dumps:
        kvaudit(["verify", str(options.dumps)])


if __name__ == "__main__":
    main(sys.argv[1:])
