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
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.arguments import check_choice, integer, schema_metadata, text
from kvaudit.capture.dump import Content, Grain, check_content, sequences_path, write_pair
from kvaudit.capture.pool_dump import PoolDump
from kvaudit.capture.pool_recorder import NOWHERE, PoolRecorder, PoolRow, RecordedPool
from kvaudit.capture.tables import integers, token_ids
from kvaudit.constants import UNKNOWN_LENGTH
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError
from kvaudit.formats.pairing_key import file_stem

__all__ = ["ForwardRow", "RecordedPool", "Recorder"]

_NO_SLOTS = np.empty(0, dtype=np.int64)

SlotTable: TypeAlias = Sequence[int] | NDArray[np.int64]
PoolTables: TypeAlias = SlotTable | Mapping[str, SlotTable]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForwardRow:
    """One request's part of a forward.

    Fields:
        request_id: the request.
        positions: positions whose KV the forward writes.
        tokens: the tokens run at them, len(positions) of them.
        slots: the request's table as it is now: the slot of each position it can still read, up to
            the last one of this forward; by pool name where there are several pools.
        known_tokens: prompt and output from position 0 on; None = the tokens that were run.
        prompt_len: prompt tokens; -1 = unknown.
    """

    request_id: str
    positions: range
    tokens: Sequence[int]
    slots: PoolTables
    known_tokens: Sequence[int] | None = None
    prompt_len: int = UNKNOWN_LENGTH


class Recorder:
    """Follows the pools of one engine. Its methods may be called from different threads.

    Args:
        content: "bytes", or "digests" for one 64-bit hash a layer, half and slot.
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
        instance: str | None = None,
        rank: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        check_choice("content", content, ("bytes", "digests"))
        self._content: Content = content
        self._instance = None if instance is None else text(instance, "instance")
        self._rank = None if rank is None else integer(rank, "rank", at_least=0)
        self._metadata = schema_metadata(metadata)
        self._lock = threading.RLock()
        self._pools: dict[str, tuple[RecordedPool, PoolRecorder]] = {}
        self._step = 0

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

    def attach(self, pools: Sequence[RecordedPool]) -> None:
        """Follow these pools, from a blank state.

        Raises:
            ConfigError: there is none, two share a name or the name of their files, or a layout
                does not fit its tensors.
        """
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
            pool_rows = {name: [self._pool_row(row, name) for row in rows] for name in self._pools}
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

    def after_forward(self) -> None:
        """Stamp what the forward wrote. Its kernels must have finished."""
        with self._lock:
            for _, recorder in self._pools.values():
                recorder.after_forward(self._step)

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
            for name, (_, recorder) in self._pools.items():
                recorder.update(
                    request_id,
                    known_tokens=_known(known_tokens, request_id),
                    slots=None if slots is None else self._table(slots, name),
                    kv_len=kv_len,
                )

    def copy_slots(self, src: PoolTables, dst: PoolTables) -> None:
        """The engine is about to copy slots src to dst, pair by pair."""
        with self._lock:
            sources = {name: self._table(src, name) for name in self._pools}
            targets = {name: self._table(dst, name) for name in self._pools}
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

    def forget(self, request_id: str) -> None:
        """The engine is done with a request: from now on its slots may be given away."""
        with self._lock:
            for _, recorder in self._pools.values():
                recorder.forget(request_id)

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
            content: other than the recorder's own; "bytes" of what was given away can be written
                only by a recorder of bytes.
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
                    finished = saved.as_digests() if wanted == "digests" else saved
                    files += self._write(directory, finished, digest_grain)
            return files

    def _write(
        self, directory: str | Path, pool_dump: PoolDump, digest_grain: Grain
    ) -> tuple[Path, Path]:
        dumped = pool_dump.by_page() if digest_grain == "page" else pool_dump
        stem = Path(directory) / file_stem(dumped.snapshot.key)
        metadata = {**self._metadata, "sequences": sequences_path(stem).name}
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

    def _pool_row(self, row: ForwardRow, pool_name: str) -> PoolRow:
        if row.positions.step != 1 or len(row.positions) != len(row.tokens):
            raise ConfigError(
                f"{row.request_id}: {len(row.tokens)} tokens for {row.positions}",
                hint="give one token a position, and consecutive positions",
            )
        if text(row.request_id, "request_id") != row.request_id:
            raise ConfigError(f"request_id: {row.request_id!r}", hint="name requests by strings")
        return PoolRow(
            request_id=row.request_id,
            positions=row.positions,
            tokens=token_ids(row.tokens, f"{row.request_id}: tokens"),
            slots=self._table(row.slots, pool_name),
            known_tokens=_known(row.known_tokens, row.request_id),
            prompt_len=integer(row.prompt_len, "prompt_len", at_least=UNKNOWN_LENGTH),
        )

    def _table(self, slots: PoolTables, pool_name: str) -> NDArray[np.int64]:
        if isinstance(slots, Mapping):
            return integers(slots.get(pool_name, ()), f"slots[{pool_name!r}]")
        if len(self._pools) > 1:
            raise ConfigError(
                "slots: one table, but there are several pools", hint="give slots by pool name"
            )
        return integers(slots, "slots")


def _known(tokens: Sequence[int] | None, request_id: str) -> NDArray[np.int64] | None:
    return None if tokens is None else token_ids(tokens, f"{request_id}: known_tokens")


def _all_but(name: str, memory: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The memory of the other pools, shape [n, 2], int64."""
    return np.concatenate([NOWHERE, *(spans for pool, spans in memory.items() if pool != name)])
