"""Runs a canary beside transformers' continuous batching while it serves.

    with watch(model, config=CanaryConfig.from_env(os.environ), dumps="dumps") as canary:
        model.generate_batch(prompts, generation_config=generation_config)
    print(canary.step)

Each forward's launches are enqueued on its own stream, before and after it; the sweep takes what
the engine caches of requests that are done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from kvaudit.capture.forward_row import ForwardRow
from kvaudit.capture.live_canary import LiveCanary, never
from kvaudit.capture.method_hooks import MethodHooks
from kvaudit.capture.transformers_cache import pool_kind_of, recorded_pools
from kvaudit.capture.transformers_engine import EngineHooks, Slots
from kvaudit.capture.transformers_prefixes import CachedBlocks
from kvaudit.errors import CanaryError, KvauditError

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.generation.continuous_batching.continuous_api import ContinuousBatchProcessor

    from kvaudit.runner.live import CachedPrefix, CanaryConfig

_LOGGER = logging.getLogger(__name__)

OnStep = Callable[[LiveCanary], None]


@contextmanager
def watch(
    model: PreTrainedModel,
    *,
    config: CanaryConfig,
    dumps: str | Path | None = None,
    triggered: Callable[[], bool] = never,
    on_step: OnStep | None = None,
    instance: str | None = None,
    rank: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Iterator[LiveCanary]:
    """Run the canary beside what the model serves through continuous batching within the block.

    In mode `raise` an alarm is raised in the engine, which stops: its requests fail with it. In all
    modes a stall ends the canary and is logged, and what ended it is raised where the block ends.
    It follows one manager: a later one within the block starts it anew.

    Args:
        model: a model with `generate_batch` or `init_continuous_batching`.
        config: the canary's; in mode `none` the engine is left alone.
        dumps: the folder of mode `dump`.
        triggered: asked once a step in mode `dump`: whether to dump now (`capture.dump_triggers`).
        on_step: called with the canary at the end of each step, in the engine's thread.
        instance: the engine process, such as "decode-0".
        rank: the rank of this process.
        metadata: further schema metadata of every file of a dump, such as {"model": ...}.

    Raises:
        ConfigError: asynchronous batching or CPU offloading is on, or mode `dump` has no folder.
        CanaryViolationError: mode raise: there were violations.
        CanaryStalledError: a launch that was due did not run.
        KvauditError: the canary or on_step failed; the engine went on without it. An exception of
            another kind is its cause.
    """
    import transformers

    from kvaudit.runner.live import CanaryMode

    engine = {"engine": f"transformers {transformers.__version__}"}
    canary = LiveCanary(
        config,
        dumps=dumps,
        triggered=triggered,
        rope=model.config.to_dict(),
        instance=instance,
        rank=rank,
        metadata={**engine, **(metadata or {})},
    )
    watched = _Watched(canary, on_step=on_step, stops_engine=config.mode is CanaryMode.RAISE)
    if config.mode is not CanaryMode.NONE:
        watched.engine.hook_model(model)
    try:
        yield canary
    finally:
        watched.end()
    watched.raise_failure()


class _Watched:
    """What one `watch` block follows.

    Args:
        canary: what is fed.
        on_step: called at the end of each step.
        stops_engine: whether an alarm is raised in the engine.
    """

    def __init__(self, canary: LiveCanary, *, on_step: OnStep | None, stops_engine: bool) -> None:
        passes = (CanaryError,) if stops_engine else ()
        self.engine = EngineHooks(follower=self, hooks=MethodHooks(passes=passes))
        self._canary = canary
        self._on_step = on_step
        self._cached: dict[str, CachedBlocks] = {}

    def end(self) -> None:
        """Leave the engine as it was, and look a last time."""
        self.engine.remove()
        if self.engine.hooks.failure is None:
            self._finish()
        self.engine.forget_engine()

    def raise_failure(self) -> None:
        """Tell the caller what ended the canary, if anything did."""
        failure = self.engine.hooks.failure
        if isinstance(failure, KvauditError):
            raise failure
        if failure is not None:
            raise KvauditError(
                f"the canary stopped at step {self._canary.step}: {failure!r}",
                hint="the requests were served; the cause is chained",
            ) from failure

    def attach(self, processor: ContinuousBatchProcessor) -> None:
        """Run beside an engine's pools, after the last look at those of before."""
        self._canary.finish()
        self._cached = {
            str(pool_kind_of(allocator)): CachedBlocks(allocator)
            for allocator in processor.cache.cache_allocators.values()
        }
        self._canary.attach(
            recorded_pools(processor.cache),
            max_requests=processor.inputs_and_outputs.max_requests_per_batch,
            cached_prefixes=self._cached_prefixes,
        )

    def before_forward(self, rows: Sequence[ForwardRow]) -> None:
        """Launch what comes before a forward."""
        with self._on_stream():
            self._canary.before_forward(rows)

    def after_forward(self) -> None:
        """Launch what comes after it."""
        try:
            with self._on_stream():
                self._canary.after_forward()
        except Exception:
            _LOGGER.exception("kv-canary: the canary ends at step %d", self._canary.step)
            raise

    def end_step(self) -> None:
        """Tell whoever waits for the end of a step."""
        if self._on_step is not None:
            self._on_step(self._canary)

    def forget(self, request_id: str) -> None:
        """A request is done; what the engine caches of it is swept from now on."""
        tokens = self.engine.tokens_of(request_id)
        for cached in self._cached.values():
            cached.keep(request_id, tokens)
        self._canary.forget(request_id)

    def copy_slots(self, src: Slots, dst: Slots) -> None:
        """Slots are about to be copied, on the stream of this call."""
        self._canary.copy_slots(src, dst)

    def _cached_prefixes(self, pool_name: str) -> Mapping[str, CachedPrefix]:
        return self._cached[pool_name].current()

    def _finish(self) -> None:
        with self._on_stream():
            self.engine.hooks.run(self._canary.finish)

    def _on_stream(self) -> AbstractContextManager[object]:
        """The stream of the forwards, so that launches come in their order."""
        import torch

        processor = self.engine.processor
        stream = None if processor is None else processor.inputs_and_outputs.compute_stream
        return nullcontext() if stream is None else torch.cuda.stream(stream)
