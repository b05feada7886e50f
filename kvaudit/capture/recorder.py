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
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.arguments import integer, schema_metadata, text
from kvaudit.capture.content import Content, Grain, check_content
from kvaudit.capture.dump import sequences_path, write_pair
from kvaudit.capture.forward_row import (
    ForwardRow,
    PoolTables,
    known_of,
    rows_by_pool,
    tables_by_pool,
)
from kvaudit.capture.pool_dump import PoolDump
from kvaudit.capture.pool_recorder import NOWHERE, PoolRecorder, RecordedPool
from kvaudit.capture.rope_metadata import RopeSource, rope_metadata
from kvaudit.capture.run_trace import RunTrace
from kvaudit.core.snapshot import DumpMoment, PoolKey
from kvaudit.errors import ConfigError
from kvaudit.formats.pairing_key import file_stem

__all__ = ["ForwardRow", "RecordedPool", "Recorder"]

_NO_SLOTS = np.empty(0, dtype=np.int64)


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
        self._instance = None if instance is None else text(instance, "instance")
        self._rank = None if rank is None else integer(rank, "rank", at_least=0)
        self._metadata = schema_metadata(metadata)
        self._rope = rope_metadata(rope)
        self._lock = threading.RLock()
        self._pools: dict[str, tuple[RecordedPool, PoolRecorder]] = {}
        self._step = 0
        self._trace: RunTrace | None = None

    @property
    def step(self) -> int:
        """Steps begun so far."""
        return self._step

    @property
    def num_stamped(self) -> int:
        """Different slots stamped so far, over all pools."""
        return sum(recorder.num_stamped for _, recorder in self._pools.values())

    @property
    def live_requests(self) -> frozenset[str]:
        """Requests that have slots and were not forgotten."""
        with self._lock:
            return frozenset().union(
                *(recorder.live_requests for _, recorder in self._pools.values())
            )

    @property
    def is_tracing(self) -> bool:
        """Whether a trace is being written."""
        return self._trace is not None

    def attach(self, pools: Sequence[RecordedPool]) -> None:
        """Follow these pools, from a blank state.

        Raises:
            ConfigError: there is none, two share a name or the name of their files, a layout does
                not fit its tensors, or a trace of other pools has not ended.
        """
        if self._trace is not None:
            raise ConfigError(
                "attach: a trace follows the pools of before", hint="call end_trace first"
            )
        names = {pool.name for pool in pools}
        stems = {file_stem(self._key(pool)) for pool in pools}
        if not pools or len(names) < len(pools) or len(stems) < len(pools):
            raise ConfigError(
                f"pools: named {', '.join(pool.name for pool in pools) or 'nothing'}",
                hint="give at least one pool, each with a name of its own",
            )
        with self._lock:
            self._pools = {
                pool.name: (pool, PoolRecorder(pool, content=self._content)) for pool in pools
            }
            self._step = 0

    def before_forward(self, rows: Sequence[ForwardRow]) -> None:
        """Begin a step: note what its forward will write, and save what it overwrites."""
        with self._lock:
            pool_rows = rows_by_pool(rows, self._pools)
            memory = self._memory_of(
                {
                    name: np.concatenate([_NO_SLOTS, *(row.chain().slots for row in its_rows)])
                    for name, its_rows in pool_rows.items()
                }
            )
            for name, (pool, recorder) in self._pools.items():
                elsewhere = _all_but(name, memory)
                recorder.before_forward(pool_rows[name], self._key(pool), elsewhere=elsewhere)
            self._step += 1
            if self._trace is not None:
                self._trace.before_forward(pool_rows)

    def after_forward(self) -> None:
        """Stamp what the forward wrote. Its kernels must have finished.

        Raises:
            FileUnwritable: the trace cannot be written, and has ended without its files, or a dump
                of digests cannot that it is due.
        """
        with self._lock:
            for _, recorder in self._pools.values():
                recorder.after_forward(self._step)
            if self._trace is not None:
                self._write_step(self._trace)

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
            for name, (_, recorder) in self._pools.items():
                recorder.update(
                    request_id,
                    known_tokens=known,
                    slots=None if tables is None else tables[name],
                    kv_len=kv_len,
                )
            if self._trace is not None:
                self._trace.update(request_id, slots=tables, kv_len=kv_len)

    def copy_slots(self, src: PoolTables, dst: PoolTables) -> None:
        """The engine is about to copy slots src to dst, pair by pair."""
        with self._lock:
            sources = tables_by_pool(src, self._pools)
            targets = tables_by_pool(dst, self._pools)
            memory = self._memory_of(targets)
            for name, (pool, recorder) in self._pools.items():
                if len(sources[name]) != len(targets[name]):
                    raise ConfigError(
                        f"copy_slots: {len(sources[name])} sources, {len(targets[name])} targets",
                        hint="give one target a source",
                    )
                recorder.copy_slots(
                    sources[name],
                    targets[name],
                    step=self._step,
                    key=self._key(pool),
                    elsewhere=_all_but(name, memory),
                )
            if self._trace is not None:
                self._trace.copy_slots(sources, targets)

    def forget(self, request_id: str) -> None:
        """The engine is done with a request: from now on its slots may be given away."""
        with self._lock:
            for _, recorder in self._pools.values():
                recorder.forget(request_id)
            if self._trace is not None:
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
            held = {
                name: recorder.dump_stamped(self._key(pool), content=self._content)
                for name, (pool, recorder) in self._pools.items()
            }
            if self._trace is not None or not held:
                raise ConfigError(
                    f"start_trace: {'a trace runs' if held else 'no pool is attached'}",
                    hint="call end_trace first" if held else "call attach first",
                )
            if any(dumped.snapshot.at is DumpMoment.MID_STEP for dumped in held.values()):
                raise ConfigError(
                    "start_trace: a forward is running", hint="call it where a step ends"
                )
            trace = RunTrace(
                Path(directory),
                held,
                step=self._step,
                digests_every=every,
                metadata=self._metadata,
            )
            try:
                for dumped in held.values():
                    self._write(trace.folder_of(self._step), dumped, "slot")
            except BaseException:
                trace.abandon()
                raise
            self._trace = trace

    def end_trace(self) -> list[Path]:
        """Write the trace and a snapshot of what the pools hold now.

        Returns:
            the files written.

        Raises:
            ConfigError: no trace runs.
            FileUnwritable: a file cannot be written; the trace has ended all the same.
        """
        with self._lock:
            trace, self._trace = self._trace, None
            if trace is None:
                raise ConfigError("end_trace: no trace runs", hint="call start_trace first")
            try:
                snapshots = self.dump(trace.folder_of(self._step))
                return [*trace.close(), *snapshots]
            finally:
                trace.abandon()

    def abandon_trace(self) -> None:
        """End the trace, if one runs, without its files: what it would have said is not whole."""
        with self._lock:
            trace, self._trace = self._trace, None
            if trace is not None:
                trace.abandon()

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
            files: list[Path] = []
            for pool, recorder in self._pools.values():
                now = recorder.dump(self._key(pool), request_ids=request_ids, content=wanted)
                files += self._write(directory, now, digest_grain)
                for saved in recorder.take_given_away() if request_ids is None else ():
                    files += self._write(directory, saved.as_content(wanted), digest_grain)
            return files

    def _write_step(self, trace: RunTrace) -> None:
        try:
            trace.after_forward(self._step)
        except BaseException:
            # Without this step, what follows would be the trace of another run.
            self.abandon_trace()
            raise
        if trace.is_digest_due(self._step):
            self.dump(trace.folder_of(self._step), content="digests")

    def _write(
        self, directory: str | Path, pool_dump: PoolDump, digest_grain: Grain
    ) -> tuple[Path, Path]:
        dumped = pool_dump.by_page() if digest_grain == "page" else pool_dump
        stem = Path(directory) / file_stem(dumped.snapshot.key)
        metadata = {**self._metadata, **self._rope, "sequences": sequences_path(stem).name}
        return write_pair(
            stem,
            snapshot=replace(dumped.snapshot, metadata=metadata),
            sequences=dumped.sequences,
        )

    def _key(self, pool: RecordedPool) -> PoolKey:
        return PoolKey(
            instance=self._instance,
            group=pool.group,
            pool=pool.name,
            pool_kind=pool.pool_kind,
            rank=self._rank,
            step=self._step,
        )

    def _memory_of(self, slots: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
        """The memory that each pool's slots lie on: a finished sequence of another pool may, too."""
        if len(slots) == 1:
            return {}
        return {
            name: self._pools[name][1].memory_of(its_slots) for name, its_slots in slots.items()
        }


def _all_but(name: str, memory: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The memory of the other pools, shape [n, 2], int64."""
    return np.concatenate([NOWHERE, *(spans for pool, spans in memory.items() if pool != name)])
