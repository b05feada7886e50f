"""Records transformers' continuous batching while it serves.

    with record(model) as recorder:
        model.generate_batch(prompts, generation_config=generation_config)
    recorder.dump("dumps")

With `trace="traces/run-1"` the folder gets every step too, for `kvaudit replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kvaudit.capture.content import Content
from kvaudit.capture.forward_row import ForwardRow
from kvaudit.capture.recorder import Recorder
from kvaudit.capture.transformers_cache import recorded_pools
from kvaudit.capture.transformers_engine import EngineHooks, Slots
from kvaudit.errors import KvauditError

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.generation.continuous_batching.continuous_api import ContinuousBatchProcessor

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
        content: "bytes", "digests", or "digests+layer0", as in `dump`.
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
        content=content,
        rope=model.config.to_dict(),
        instance=instance,
        rank=rank,
        metadata={**engine, **(metadata or {})},
    )
    recording = _Recording(recorder, on_step=on_step, trace=trace, digests_every=digests_every)
    recording.engine.hook_model(model)
    try:
        yield recorder
    finally:
        recording.end()
    recording.raise_failure()


class _Recording:
    """What one `record` block follows.

    Args:
        recorder: what is fed.
        on_step: called at the end of each step.
        trace: the folder of the trace; None = no trace.
        digests_every: steps between its snapshots of digests.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        on_step: OnStep | None,
        trace: str | Path | None,
        digests_every: int,
    ) -> None:
        self.engine = EngineHooks(follower=self)
        self._recorder = recorder
        self._on_step = on_step
        self._trace = trace
        self._digests_every = digests_every

    def end(self) -> None:
        """Leave the engine as it was, and write the trace."""
        self.engine.remove()
        if self._recorder.is_tracing:
            self.engine.hooks.run(self._end_trace)
        self._recorder.abandon_trace()
        self.engine.forget_engine()

    def raise_failure(self) -> None:
        """Tell the caller what ended the recording early, if anything did."""
        failure = self.engine.hooks.failure
        if isinstance(failure, KvauditError):
            raise failure
        if failure is not None:
            raise KvauditError(
                f"the recording stopped at step {self._recorder.step}: {failure!r}",
                hint="the requests were served; the cause is chained",
            ) from failure

    def attach(self, processor: ContinuousBatchProcessor) -> None:
        """Follow an engine's pools, from a blank state."""
        self._recorder.attach(recorded_pools(processor.cache))
        if self._trace is not None:
            self._recorder.start_trace(self._trace, digests_every=self._digests_every)

    def before_forward(self, rows: Sequence[ForwardRow]) -> None:
        """Note what a forward will write."""
        self._recorder.before_forward(rows)

    def after_forward(self) -> None:
        """Stamp what it wrote, once its stream is idle."""
        stream = self.engine.running.inputs_and_outputs.compute_stream
        if stream is not None:
            stream.synchronize()
        self._recorder.after_forward()

    def end_step(self) -> None:
        """Read all tables again, and tell whoever waits for the end of a step."""
        for request_id in self._recorder.live_requests:
            self._refresh(request_id)
        if self._on_step is not None:
            self._on_step(self._recorder)

    def forget(self, request_id: str) -> None:
        """A request is done."""
        if request_id in self._recorder.live_requests:
            self._refresh(request_id)
            self._recorder.forget(request_id)

    def copy_slots(self, src: Slots, dst: Slots) -> None:
        """Slots are about to be copied."""
        self._recorder.copy_slots(src, dst)

    def _end_trace(self) -> None:
        self._recorder.end_trace()

    def _refresh(self, request_id: str) -> None:
        """Tokens and table as the engine has them now."""
        self._recorder.update(
            request_id,
            known_tokens=self.engine.tokens_of(request_id),
            slots=self.engine.slots_of(request_id),
        )
