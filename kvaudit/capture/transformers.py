"""Records transformers' continuous batching while it serves.

    with record(model) as recorder:
        model.generate_batch(prompts, generation_config=generation_config)
    recorder.dump("dumps")

With `trace="traces/run-1"` the folder gets every step too, for `kvaudit replay`.

What the engine does, and where it is hooked (transformers 5.24):

- `prepare_batch_tensors` fixes the tokens, positions and block tables of a step.
- `compute_batch` runs the forward; the KV is stamped once its stream is idle. `cache.update` would
  see only a part of it: CUDA graphs and the block-table path bypass it.
- `update_batch` takes the sampled tokens and replaces a finished block by an equal one, so tables
  are read again after it.
- `free_blocks` gives up a request's blocks, when it is finished, cancelled or evicted.
- `perform_cache_copy` copies blocks when a request forks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.dump import Content
from kvaudit.capture.method_hooks import MethodHooks
from kvaudit.capture.recorder import ForwardRow, Recorder
from kvaudit.capture.transformers_cache import (
    block_slots,
    pool_kind_of,
    recorded_pools,
    request_slots,
)
from kvaudit.errors import ConfigError, KvauditError

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel
    from transformers.generation.configuration_utils import ContinuousBatchingConfig
    from transformers.generation.continuous_batching.continuous_api import (
        ContinuousBatchingManager,
        ContinuousBatchProcessor,
    )
    from transformers.generation.continuous_batching.initialization import WorkloadHints
    from transformers.generation.continuous_batching.requests import (
        FutureRequestState,
        RequestState,
    )

_WARMUP_PREFIX: Final = "__warmup_"

OnStep = Callable[[Recorder], None]


@contextmanager
def record(
    model: PreTrainedModel,
    *,
    content: Content = "bytes",
    on_step: OnStep | None = None,
    instance: str | None = None,
    rank: int | None = None,
    metadata: Mapping[str, str] | None = None,
    trace: str | Path | None = None,
    digests_every: int = 0,
) -> Iterator[Recorder]:
    """Record what the model serves through continuous batching within the block.

    The recorder keeps the pool alive and can dump after the block, too. It follows one manager:
    a later one within the block starts it anew, or, with a trace, ends the recording.

    Args:
        model: a model with `generate_batch` or `init_continuous_batching`.
        content: "bytes", or "digests" for one 64-bit hash a layer, half and slot.
        on_step: called with the recorder at the end of each step, in the engine's thread: the
            place to dump while requests run.
        instance: the engine process, such as "decode-0".
        rank: the rank of this process.
        metadata: further schema metadata of every file, such as {"model": ...}.
        trace: the folder of a trace from the manager's first step to the end of the block, as in
            `Recorder.start_trace`; None = no trace. A recording that fails leaves no trace.
        digests_every: steps from one snapshot of digests in the trace to the next; 0 = none.

    Raises:
        ConfigError: asynchronous batching or CPU offloading is on, or digests_every is no number.
        FileUnwritable: the trace cannot be written.
        KvauditError: the recording or on_step failed; the engine went on without it. An exception
            of another kind is its cause.
    """
    import transformers

    engine = {"engine": f"transformers {transformers.__version__}"}
    recorder = Recorder(
        content=content, instance=instance, rank=rank, metadata={**engine, **(metadata or {})}
    )
    recording = _Recording(
        recorder=recorder, on_step=on_step, trace=trace, digests_every=digests_every
    )
    recording.hook_model(model)
    try:
        yield recorder
    finally:
        recording.end()
    recording.raise_failure()


@dataclass(slots=True, kw_only=True, eq=False)
class _Recording:
    """What one `record` block follows.

    Fields:
        recorder: what is fed.
        on_step: called at the end of each step.
        trace: the folder of the trace; None = no trace.
        digests_every: steps between its snapshots of digests.
        processor: the engine's loop that is hooked; None before there is one.
        hooks: the methods replaced on the engine's objects.
        states: requests of the last steps, by name.
    """

    recorder: Recorder
    on_step: OnStep | None
    trace: str | Path | None
    digests_every: int
    processor: ContinuousBatchProcessor | None = None
    hooks: MethodHooks = field(default_factory=MethodHooks)
    states: dict[str, RequestState] = field(default_factory=dict)

    def hook_model(self, model: PreTrainedModel) -> None:
        """Follow every manager that the model makes."""
        make_manager = model.init_continuous_batching

        def hooked(
            generation_config: GenerationConfig | None = None,
            continuous_batching_config: ContinuousBatchingConfig | None = None,
            workload_hints: WorkloadHints | None = None,
        ) -> ContinuousBatchingManager:
            manager = make_manager(
                generation_config=generation_config,
                continuous_batching_config=_synchronous(continuous_batching_config),
                workload_hints=workload_hints,
            )
            _check_config(manager.continuous_batching_config)
            self.hooks.run(lambda: self._hook_manager(manager))
            return manager

        self.hooks.replace(model, "init_continuous_batching", hooked)

    def end(self) -> None:
        """Leave the engine as it was, and write the trace."""
        self.hooks.remove()
        if self.recorder.is_tracing:
            self.hooks.run(self._end_trace)
        self.recorder.abandon_trace()
        self.states.clear()
        self.processor = None

    def _end_trace(self) -> None:
        self.recorder.end_trace()

    def raise_failure(self) -> None:
        """Tell the caller what ended the recording early, if anything did."""
        failure = self.hooks.failure
        if isinstance(failure, KvauditError):
            raise failure
        if failure is not None:
            raise KvauditError(
                f"the recording stopped at step {self.recorder.step}: {failure!r}",
                hint="the requests were served; the cause is chained",
            ) from failure

    def _hook_manager(self, manager: ContinuousBatchingManager) -> None:
        make_processor = manager._create_batch_processor  # noqa: SLF001 - no public hook exists

        def hooked() -> ContinuousBatchProcessor:
            processor = make_processor()
            if processor is not self.processor:
                self.hooks.run(lambda: self._hook_processor(processor))
            return processor

        self.hooks.replace(manager, "_create_batch_processor", hooked)

    def _hook_processor(self, processor: ContinuousBatchProcessor) -> None:
        self.processor = processor
        self.states.clear()
        self.recorder.attach(recorded_pools(processor.cache))
        if self.trace is not None:
            self.recorder.start_trace(self.trace, digests_every=self.digests_every)
        self._around_prepare(processor)
        self.hooks.after(processor.model_runner, "compute_batch", self._stamp)
        self.hooks.after(processor, "update_batch", self._end_step)
        self.hooks.before(processor.cache, "free_blocks", self._forget)
        self.hooks.before(processor.cache, "free_all_requests", self._forget_all)
        self.hooks.before(processor.cache, "perform_cache_copy", self._copy)

    def _around_prepare(self, processor: ContinuousBatchProcessor) -> None:
        """Tokens and positions are read before, since it changes both; block tables after."""
        prepare = processor.inputs_and_outputs.prepare_batch_tensors

        def hooked(
            requests_in_batch: list[FutureRequestState], *args: object, **kwargs: object
        ) -> object:
            inputs: list[_RequestInputs] = []
            self.hooks.run(lambda: inputs.extend(map(_inputs_of, requests_in_batch)))
            result: object = prepare(requests_in_batch, *args, **kwargs)
            self.hooks.run(lambda: self._begin_step(inputs))
            return result

        self.hooks.replace(processor.inputs_and_outputs, "prepare_batch_tensors", hooked)

    def _begin_step(self, inputs: list[_RequestInputs]) -> None:
        served = [given for given in inputs if not given.is_warmup]
        self.states.update((given.state.request_id, given.state) for given in served)
        self.recorder.before_forward(
            [
                ForwardRow(
                    request_id=given.state.request_id,
                    positions=given.positions,
                    tokens=given.tokens,
                    slots=self._slots(given.state.request_id, given.positions.stop),
                    known_tokens=_tokens_of(given.state),
                    prompt_len=_prompt_len(given.state),
                )
                for given in served
            ]
        )

    def _stamp(self, *_: object) -> None:
        stream = self._running.inputs_and_outputs.compute_stream
        if stream is not None:
            stream.synchronize()
        self.recorder.after_forward()

    def _end_step(self) -> None:
        for request_id in self.recorder.live_requests:
            self._refresh(request_id)
        if self.on_step is not None:
            self.on_step(self.recorder)

    def _forget(self, request_id: str, *_: object, **__: object) -> None:
        if request_id in self.recorder.live_requests:
            self._refresh(request_id)
            self.recorder.forget(request_id)
        self.states.pop(request_id, None)

    def _forget_all(self, *_: object, **__: object) -> None:
        for request_id in self.recorder.live_requests:
            self._forget(request_id)

    def _copy(self, copies: Mapping[str, tuple[list[int], list[int]]]) -> None:
        src: dict[str, NDArray[np.int64]] = {}
        dst: dict[str, NDArray[np.int64]] = {}
        for name, (src_blocks, dst_blocks) in copies.items():
            allocator = self._running.cache.cache_allocators[name]
            pool_name = pool_kind_of(allocator)
            src[pool_name] = block_slots(allocator, src_blocks)
            dst[pool_name] = block_slots(allocator, dst_blocks)
        self.recorder.copy_slots(src, dst)

    def _refresh(self, request_id: str) -> None:
        """Tokens and table as the engine has them now."""
        state = self.states[request_id]
        self.recorder.update(
            request_id,
            known_tokens=_tokens_of(state),
            slots=self._slots(request_id, state.position_offset),
        )

    def _slots(self, request_id: str, kv_len: int) -> dict[str, NDArray[np.int64]]:
        return {
            pool_kind_of(allocator): request_slots(allocator, request_id, kv_len)
            for allocator in self._running.cache.cache_allocators.values()
        }

    @property
    def _running(self) -> ContinuousBatchProcessor:
        if self.processor is None:
            raise ConfigError("the recording has ended", hint="dump within the block")
        return self.processor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RequestInputs:
    """What a request runs in a step, before the engine moves on to the next token."""

    state: RequestState
    positions: range
    tokens: list[int]

    @property
    def is_warmup(self) -> bool:
        return bool(self.state.request_id.startswith(_WARMUP_PREFIX))


def _inputs_of(future: FutureRequestState) -> _RequestInputs:
    past_len = future.state.position_offset
    return _RequestInputs(
        state=future.state,
        positions=range(past_len, past_len + future.query_length),
        tokens=list(future.state.tokens_to_process),
    )


def _tokens_of(state: RequestState) -> list[int]:
    """Prompt and output, the last sampled token too."""
    tokens: list[int] = state.initial_tokens + state.generated_tokens
    return tokens


def _prompt_len(state: RequestState) -> int:
    """An evicted request comes back with its output as a part of its prompt."""
    return int(state._true_initial_tokens or len(state.initial_tokens))  # noqa: SLF001


def _synchronous(config: ContinuousBatchingConfig | None) -> ContinuousBatchingConfig:
    """The configuration with asynchronous batching off where it was left open."""
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    config = ContinuousBatchingConfig() if config is None else copy.copy(config)
    if config.use_async_batching is None:
        config.use_async_batching = False
    return config


def _check_config(config: ContinuousBatchingConfig) -> None:
    if config.use_async_batching:
        raise ConfigError(
            "use_async_batching: a step's KV is not final when the next one begins",
            hint="set use_async_batching=False while recording",
        )
    if config.cpu_offload_space:
        raise ConfigError(
            "cpu_offload_space: KV that comes back from the CPU is not followed",
            hint="set cpu_offload_space=0 while recording",
        )
