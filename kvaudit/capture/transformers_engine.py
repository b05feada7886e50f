"""Follows transformers' continuous batching while it serves.

What the engine does, and where it is hooked (transformers 5.24):

- `prepare_batch_tensors` fixes the tokens, positions and block tables of a step.
- `compute_batch` runs the forward. `cache.update` would see only a part of it: CUDA graphs and the
  block-table path bypass it.
- `update_batch` takes the sampled tokens and replaces a finished block by an equal one, so tables
  are read again after it.
- `free_blocks` gives up a request's blocks, when it is finished, cancelled or evicted.
- `perform_cache_copy` copies blocks when a request forks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.forward_row import ForwardRow
from kvaudit.capture.method_hooks import MethodHooks
from kvaudit.capture.transformers_cache import block_slots, pool_kind_of, request_slots
from kvaudit.errors import ConfigError

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

Slots = dict[str, NDArray[np.int64]]


class EngineFollower(Protocol):
    """What is told of an engine's steps, in the engine's thread."""

    def attach(self, processor: ContinuousBatchProcessor) -> None:
        """An engine begins to serve."""

    def before_forward(self, rows: Sequence[ForwardRow]) -> None:
        """A forward is prepared; without a row, it serves no request."""

    def after_forward(self) -> None:
        """Its kernels are enqueued, on a CPU finished."""

    def end_step(self) -> None:
        """The sampled tokens are taken, and the tables are final."""

    def forget(self, request_id: str) -> None:
        """A request is about to give up its blocks."""

    def copy_slots(self, src: Slots, dst: Slots) -> None:
        """Slots are about to be copied, pair by pair, by pool."""


@dataclass(slots=True, kw_only=True, eq=False)
class EngineHooks:
    """Tells a follower what the managers of one model do.

    Fields:
        follower: who is told.
        hooks: the methods replaced on the engine's objects.
        processor: the engine's loop that is hooked; None before there is one.
        states: requests of the last steps, by name.
    """

    follower: EngineFollower
    hooks: MethodHooks = field(default_factory=MethodHooks)
    processor: ContinuousBatchProcessor | None = None
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

    def remove(self) -> None:
        """Leave the engine as it was."""
        self.hooks.remove()

    def forget_engine(self) -> None:
        """Keep nothing of the engine alive."""
        self.states.clear()
        self.processor = None

    @property
    def running(self) -> ContinuousBatchProcessor:
        """The engine's loop.

        Raises:
            ConfigError: there is none.
        """
        if self.processor is None:
            raise ConfigError("the recording has ended", hint="dump within the block")
        return self.processor

    def tokens_of(self, request_id: str) -> list[int]:
        """Prompt and output of a request, the last sampled token too."""
        return _tokens_of(self.states[request_id])

    def slots_of(self, request_id: str) -> Slots:
        """The tables of a request, up to the last position that was scheduled, by pool."""
        return self._slots(request_id, self.states[request_id].position_offset)

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
        self.follower.attach(processor)
        self._around_prepare(processor)
        self.hooks.after(processor.model_runner, "compute_batch", self._after_forward)
        self.hooks.after(processor, "update_batch", self.follower.end_step)
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
        self.follower.before_forward(
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

    def _after_forward(self, *_: object) -> None:
        self.follower.after_forward()

    def _forget(self, request_id: str, *_: object, **__: object) -> None:
        if request_id in self.states:
            self.follower.forget(request_id)
            del self.states[request_id]

    def _forget_all(self, *_: object, **__: object) -> None:
        for request_id in list(self.states):
            self._forget(request_id)

    def _copy(self, copies: Mapping[str, tuple[list[int], list[int]]]) -> None:
        src: Slots = {}
        dst: Slots = {}
        for name, (src_blocks, dst_blocks) in copies.items():
            allocator = self.running.cache.cache_allocators[name]
            pool_name = pool_kind_of(allocator)
            src[pool_name] = block_slots(allocator, src_blocks)
            dst[pool_name] = block_slots(allocator, dst_blocks)
        self.follower.copy_slots(src, dst)

    def _slots(self, request_id: str, kv_len: int) -> Slots:
        return {
            pool_kind_of(allocator): request_slots(allocator, request_id, kv_len)
            for allocator in self.running.cache.cache_allocators.values()
        }


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
