"""Stamps an engine's KV as it is written, and dumps pools with what they should hold.

The engine, or an adapter, calls the recorder around each step:

    recorder = Recorder()
    recorder.attach([RecordedPool(kv=pools, layout="page slot head dim", page_size=16)])
    recorder.before_forward(rows)      # what the forward will write
    recorder.after_forward()           # stamps it: records of both halves, a hash a column
    recorder.copy_slots(src, dst)      # before the engine copies slots
    recorder.forget(request_id)        # the engine is done with a request
    recorder.dump("dumps/step-000120")

A finished sequence stays in the dumps for as long as its slots hold it. When a slot is given away,
its rows are saved first, as they were then, and `dump` writes them as files of their own.

Between `start_trace` and `end_trace` every step goes into a trace too, which `kvaudit replay` runs
again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from kvaudit.capture.arguments import integer
from kvaudit.capture.content import Content, Grain, check_content
from kvaudit.capture.dump_identity import DumpIdentity
from kvaudit.capture.forward_row import (
    ForwardRow,
    PoolTables,
    known_of,
    rows_by_pool,
    tables_by_pool,
)
from kvaudit.capture.pool_set import EACH_WITH_A_NAME, PoolSet
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.capture.rope_metadata import RopeSource
from kvaudit.capture.trace_switch import TraceSwitch
from kvaudit.errors import ConfigError

__all__ = ["ForwardRow", "RecordedPool", "Recorder"]


class Recorder:
    """Follows the pools of one engine. Its methods may be called from different threads.

    Args:
        content: "bytes", "digests" for one 64-bit hash a layer, half and slot, or "digests+layer0",
            as in `dump`.
        rope: how the model rotates K, as in `dump`.
        instance: the engine process, such as "decode-0".
        rank: the rank that owns the pools.
        metadata: further schema metadata of every file, such as {"engine": ..., "model": ...}.

    Raises:
        ConfigError: an argument is none that a file can hold; the message names it.
    """

    def __init__(
        self,
        *,
        content: Content = "bytes",
        rope: RopeSource | None = None,
        instance: str | None = None,
        rank: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        check_content(content)
        self._content: Content = content
        identity = DumpIdentity.of(instance=instance, rank=rank, metadata=metadata, rope=rope)
        self._lock = threading.RLock()
        self._pools = PoolSet((), content=content, identity=identity)
        self._step = 0
        self._trace = TraceSwitch()

    @property
    def step(self) -> int:
        """Steps begun so far."""
        return self._step

    @property
    def num_stamped(self) -> int:
        """Different slots stamped so far, over all pools."""
        return self._pools.num_stamped

    @property
    def live_requests(self) -> frozenset[str]:
        """Requests that have slots and were not forgotten."""
        with self._lock:
            return self._pools.live_requests

    @property
    def is_tracing(self) -> bool:
        """Whether a trace is being written."""
        return self._trace.is_on

    def attach(self, pools: Sequence[RecordedPool]) -> None:
        """Follow these pools, from a blank state.

        Raises:
            ConfigError: there is none, two share a name or the name of their files, a layout does
                not fit its tensors, or a trace of other pools has not ended.
        """
        if self._trace.is_on:
            raise ConfigError(
                "attach: a trace follows the pools of before",
                hint="call end_trace first",
            )
        if not pools:
            raise ConfigError("pools: named nothing", hint=EACH_WITH_A_NAME)
        with self._lock:
            self._pools = PoolSet(pools, content=self._content, identity=self._pools.identity)
            self._step = 0

    def before_forward(self, rows: Sequence[ForwardRow]) -> None:
        """Begin a step: note what its forward will write, and save what it overwrites."""
        with self._lock:
            pool_rows = rows_by_pool(rows, self._pools)
            self._pools.before_forward(pool_rows, last_step=self._step)
            self._step += 1
            self._trace.before_forward(pool_rows)

    def after_forward(self) -> None:
        """Stamp what the forward wrote. Its kernels must have finished.

        Raises:
            FileUnwritable: the trace cannot be written, and has ended without its files, or a dump
                of digests cannot that it is due.
        """
        with self._lock:
            self._pools.after_forward(self._step)
            digests = self._trace.after_forward(self._step)
            if digests is not None:
                self.dump(digests, content="digests")

    def update(
        self,
        request_id: str,
        *,
        known_tokens: Sequence[int] | None = None,
        slots: PoolTables | None = None,
        kv_len: int | None = None,
    ) -> None:
        """What the engine has of a request now, such as after sampling, after a finished block was
        replaced by an equal one, or after drafted tokens were rejected. What is not given stays.

        Args:
            request_id: the request; nothing happens if it has no slots or was forgotten.
            known_tokens: prompt and output from position 0 on.
            slots: its table, up to position kv_len - 1; by pool name where there are several pools.
            kv_len: positions whose KV counts; those past it were rejected and are no longer judged.

        Raises:
            ConfigError: a slot is outside its pool, or the table is longer than kv_len.
        """
        with self._lock:
            tables = None if slots is None else tables_by_pool(slots, self._pools)
            known = None if known_tokens is None else known_of(known_tokens, request_id)
            self._pools.update(request_id, known_tokens=known, slots=tables, kv_len=kv_len)
            self._trace.update(request_id, slots=tables, kv_len=kv_len)

    def copy_slots(self, src: PoolTables, dst: PoolTables) -> None:
        """The engine is about to copy slots src to dst, pair by pair."""
        with self._lock:
            sources = tables_by_pool(src, self._pools)
            targets = tables_by_pool(dst, self._pools)
            self._pools.copy_slots(sources, targets, step=self._step)
            self._trace.copy_slots(sources, targets)

    def forget(self, request_id: str) -> None:
        """The engine is done with a request: from now on its slots may be given away."""
        with self._lock:
            self._pools.forget(request_id)
            self._trace.forget(request_id)

    def start_trace(self, directory: str | Path, *, digests_every: int = 0) -> None:
        """Write down what the engine does from now on, at the end of a step, until `end_trace`.

        The folder gets a snapshot of this step, with every slot that was ever stamped, and a dump
        of the last one, each in a folder such as `step-000120`; and when the trace ends, for each
        pool, the trace itself and the recorder's counters: `full.plan.arrow`, `full.state.arrow`.

        Args:
            directory: the folder; it is made.
            digests_every: steps from one snapshot of digests to the next; 0 = none.

        Raises:
            ConfigError: no pool is attached, a trace runs already, or a forward does.
            FileUnwritable: a file or its folder cannot be written.
        """
        every = integer(digests_every, "digests_every", at_least=0)
        with self._lock:
            self._trace.start(
                directory, self._pools, content=self._content, step=self._step, digests_every=every
            )

    def end_trace(self) -> list[Path]:
        """Write the trace and a snapshot of what the pools hold now.

        Returns:
            the files written.

        Raises:
            ConfigError: no trace runs.
            FileUnwritable: a file cannot be written; the trace has ended all the same.
        """
        with self._lock:
            return self._trace.end(self._step, self.dump)

    def abandon_trace(self) -> None:
        """End the trace, if one runs, without its files: what it would have said is not whole."""
        with self._lock:
            self._trace.abandon()

    def dump(
        self,
        directory: str | Path,
        *,
        request_ids: Collection[str] | None = None,
        content: Content | None = None,
        digest_grain: Grain = "slot",
    ) -> list[Path]:
        """Write a snapshot and its sequences for each pool, and for what was given away since.

        Between before_forward and after_forward the files say `mid_step`. What was given away is
        numbered, is a pool of its own such as `FULL.finished-000001`, and is let go of once it is
        written: only one dump holds it.

        Args:
            directory: the folder; it is made.
            request_ids: these requests alone, and nothing that was given away; None = all.
            content: other than the recorder's own; bytes of what was given away can be written only
                by a recorder of those bytes.
            digest_grain: of digests, "slot", or "page" for one hash of all slots of a page
                together, without records: see `dump`.

        Returns:
            the files written.

        Raises:
            ConfigError: content or digest_grain is neither, or they do not fit each other.
            FileUnwritable: a file or its folder cannot be written.
        """
        with self._lock:
            wanted = content or self._content
            check_content(wanted, digest_grain)
            dumps = self._pools.dump(self._step, request_ids=request_ids, content=wanted)
            return self._pools.write(directory, dumps, digest_grain)
