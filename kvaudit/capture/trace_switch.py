"""The trace of a recorder, which runs or does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kvaudit.capture.content import Content
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.pool_set import PoolSet, SlotsByPool
from kvaudit.capture.run_trace import RunTrace
from kvaudit.core.snapshot import DumpMoment
from kvaudit.errors import ConfigError


class TraceSwitch:
    """Tells the trace that runs what a recorder is told; without one, nobody."""

    def __init__(self) -> None:
        self._trace: RunTrace | None = None

    @property
    def is_on(self) -> bool:
        """Whether a trace runs."""
        return self._trace is not None

    def start(
        self,
        directory: str | Path,
        pools: PoolSet,
        *,
        content: Content,
        step: int,
        digests_every: int,
    ) -> None:
        """Dump every slot that was ever stamped, and begin a trace.

        Args:
            directory: the folder of the trace; it is made.
            pools: the pools, at the end of a step.
            content: what the dump holds.
            step: the step that has ended.
            digests_every: steps from one snapshot of digests to the next; 0 = none.

        Raises:
            ConfigError: a trace runs, there is no pool, or a forward is running.
            FileUnwritable: a file or its folder cannot be written; nothing is left of the trace.
        """
        held = pools.dump_stamped(step, content=content)
        if self._trace is not None or not held:
            raise ConfigError(
                f"start_trace: {'a trace runs' if held else 'no pool is attached'}",
                hint="call end_trace first" if held else "call attach first",
            )
        if any(dumped.snapshot.at is DumpMoment.MID_STEP for dumped in held.values()):
            raise ConfigError("start_trace: a forward is running", hint="call it where a step ends")
        metadata = pools.identity.metadata
        trace = RunTrace(
            Path(directory),
            held,
            step=step,
            digests_every=digests_every,
            metadata=metadata,
        )
        try:
            pools.write(trace.folder_of(step), held.values(), "slot")
        except BaseException:
            trace.abandon()
            raise
        self._trace = trace

    def end(self, step: int, dump: Callable[[Path], list[Path]]) -> list[Path]:
        """Write the trace and a last dump.

        Args:
            step: the step that has ended.
            dump: writes what the pools hold now into a folder; gives the files.

        Returns:
            the files written.

        Raises:
            ConfigError: no trace runs.
            FileUnwritable: a file cannot be written; the trace has ended all the same.
        """
        trace, self._trace = self._trace, None
        if trace is None:
            raise ConfigError("end_trace: no trace runs", hint="call start_trace first")
        try:
            snapshots = dump(trace.folder_of(step))
            return [*trace.close(), *snapshots]
        finally:
            trace.abandon()

    def abandon(self) -> None:
        """End the trace without its files."""
        trace, self._trace = self._trace, None
        if trace is not None:
            trace.abandon()

    def before_forward(self, rows: Mapping[str, Sequence[PoolRow]]) -> None:
        """What a forward will write, by pool name."""
        if self._trace is not None:
            self._trace.before_forward(rows)

    def after_forward(self, step: int) -> Path | None:
        """The forward has written.

        Returns:
            the folder of a dump of digests that is due now; None where none is.

        Raises:
            FileUnwritable: the trace cannot be written, and has ended without its files.
        """
        trace = self._trace
        if trace is None:
            return None
        try:
            trace.after_forward(step)
        except BaseException:
            # Without this step, what follows would be the trace of another run.
            self.abandon()
            raise
        return trace.folder_of(step) if trace.is_digest_due(step) else None

    def update(self, request_id: str, *, slots: SlotsByPool | None, kv_len: int | None) -> None:
        """A request's tables and its length as the engine has them now."""
        if self._trace is not None:
            self._trace.update(request_id, slots=slots, kv_len=kv_len)

    def copy_slots(self, src: SlotsByPool, dst: SlotsByPool) -> None:
        """Slots are copied."""
        if self._trace is not None:
            self._trace.copy_slots(src, dst)

    def forget(self, request_id: str) -> None:
        """The engine is done with a request."""
        if self._trace is not None:
            self._trace.forget(request_id)
