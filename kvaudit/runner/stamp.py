"""Certify an existing dump: records from its expectations, digests from its bytes.

What is there now becomes what is right: damage from before the stamp reads clean afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    NO_SEED,
    NO_STEP,
    RECORD_WORDS,
    SKIP_WRITE,
    LaunchTag,
    RealKvHashMode,
)
from kvaudit.core.backend import Backend
from kvaudit.core.column_names import canary_name, column_half, column_order, stamped_name, tail_of
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import ALL_ENTRIES, EntryBlock, EntrySource
from kvaudit.core.kv_column import ArrayColumn, ComputedColumn, RowColumn
from kvaudit.core.launch_tag import KvHalf, LaunchPhase, launch_tag
from kvaudit.core.snapshot import DigestGrain, Snapshot
from kvaudit.errors import ConfigError, SnapshotInconsistent
from kvaudit.runner.expectations import expectations_of
from kvaudit.runner.planned_rows import planned_rows
from kvaudit.runner.row_space import RowSpace

# Columns an error message lists.
_MAX_NAMED = 8


def stamp(pool: AuditedPool, *, backend: Backend, combined: Sequence[str] = ()) -> Snapshot:
    """A snapshot of the same bytes with tail records and a stamped digest of every column.

    Where digests are of pages, so are the stamped ones, and there are no records.
    Records and digests are computed when the snapshot's columns are read, so that writing it
    needs the memory of one column.

    Args:
        pool: the dump with its sequences or plans.
        backend: what folds and stamps.
        combined: KV columns, in fold order, that the records' real_kv_hash shall cover; empty =
            none (mode none). They are folded a second time for it.

    Raises:
        SnapshotInconsistent: no expectation says what the records should be.
        ConfigError: a combined column is not in the dump, is named twice, or has digests of pages.
    """
    snapshot = pool.snapshot
    sources = expectations_of(pool, ALL_ENTRIES).sources
    if not sources:
        raise SnapshotInconsistent(
            "nothing says what its slots hold, so there is nothing to stamp",
            path=snapshot.path or None,
            hint="pass --expect FILE with its sequences or its plan",
        )
    content = sorted({*snapshot.kv, *snapshot.digests}, key=column_order)
    _check_combined(combined, content)
    of_pages = snapshot.digest_grain is DigestGrain.PAGE
    if of_pages and combined:
        raise ConfigError(
            f"{combined[0]}: its digests are of pages, and a record covers a slot",
            hint="combine no columns, or dump the digests of slots",
        )
    digests = {name: partial(_digests, snapshot, backend, name) for name in content}
    halves = [half for half in KvHalf if half is KvHalf.K or any(_is_v(name) for name in content)]
    canary = {}
    for half in () if of_pages else halves:
        covered = [digests[name] for name in combined if column_half(name) is half]
        records = partial(_records, snapshot, sources, backend=backend, half=half, digests=covered)
        name = tail_of(half)
        canary[name] = ComputedColumn(name=canary_name(name), compute=records)
    return replace(
        snapshot,
        real_kv_hash_mode=RealKvHashMode.ALL if combined else RealKvHashMode.NONE,
        stamped_columns=tuple(combined),
        canary=canary,
        stamped={
            name: ComputedColumn(name=stamped_name(name), compute=digest)
            for name, digest in digests.items()
        },
        evidence=_evidence(snapshot, sources),
    )


def computed(stamped: Snapshot) -> Snapshot:
    """A stamped snapshot whose records and digests are in memory, and not computed at each reading.

    Raises:
        BackendError: the backend failed.
    """

    def read(columns: Mapping[str, RowColumn]) -> dict[str, RowColumn]:
        return {
            key: ArrayColumn(name=column.name, values=column.read())
            for key, column in columns.items()
        }

    return replace(stamped, canary=read(stamped.canary), stamped=read(stamped.stamped))


def _check_combined(combined: Sequence[str], content: Sequence[str]) -> None:
    for name in combined:
        if name not in content:
            some = ", ".join(content[:_MAX_NAMED]) or "no bytes and no digests"
            more = " and others" if len(content) > _MAX_NAMED else ""
            raise ConfigError(f"{name} is not in the dump", hint=f"it has {some}{more}")
        if combined.count(name) > 1:
            raise ConfigError(f"{name} is named twice", hint="name each combined column once")


def _is_v(name: str) -> bool:
    return column_half(name) is KvHalf.V


def _digests(snapshot: Snapshot, backend: Backend, name: str) -> NDArray[np.int64]:
    """The hash of every row of a column, shape [num_rows], int64."""
    column = snapshot.kv.get(name)
    if column is None:
        return snapshot.digests[name].read()
    return backend.fold(column, np.arange(snapshot.num_rows, dtype=np.int64)).view(np.int64)


def _evidence(snapshot: Snapshot, sources: Sequence[EntrySource]) -> dict[str, RowColumn]:
    """The evidence columns; stamped_step, where there is one, now says who was stamped."""
    evidence = dict(snapshot.evidence)
    if "stamped_step" in evidence:
        rows = planned_rows(sources, RowSpace(snapshot)).rows
        step = 0 if snapshot.key.step is None else snapshot.key.step
        values = np.where(rows, step, NO_STEP).astype(np.int64)
        evidence["stamped_step"] = ArrayColumn(name="stamped_step", values=values)
    return evidence


def _records(
    snapshot: Snapshot,
    sources: Sequence[EntrySource],
    *,
    backend: Backend,
    half: KvHalf,
    digests: Sequence[Callable[[], NDArray[np.int64]]],
) -> NDArray[np.int64]:
    """The records that the expectations ask for, shape [num_rows, 4], int64; zero elsewhere."""
    space = RowSpace(snapshot)
    records = np.zeros((space.num_indices, RECORD_WORDS), dtype=np.int64)
    real = np.zeros(space.num_indices, dtype=np.uint64)
    if digests:
        running = np.zeros(snapshot.num_rows, dtype=np.uint64)
        for digest in digests:
            running = backend.combine([digest().view(np.uint64)], running=running)
        real[space.row_shift :] = running
    tag = launch_tag(LaunchPhase.TAIL, half, snapshot.key.pool_kind)
    for source in sources:
        if source.enabled:
            for block in source.blocks():
                _write_block(backend, block, space, records=records, real=real, tag=tag)
    return records[space.row_shift :]


def _write_block(
    backend: Backend,
    block: EntryBlock,
    space: RowSpace,
    *,
    records: NDArray[np.int64],
    real: NDArray[np.uint64],
    tag: LaunchTag,
) -> None:
    """Stamp one block: entries that follow each other are one chain."""
    indices = space.indices_of(block.slot_indices)
    prev_indices = space.indices_of(block.prev_slot_indices)
    usable = (indices > 0) & (indices < space.past_end)
    starts = np.ones(len(indices), dtype=np.bool_)
    starts[1:] = (prev_indices[1:] <= 0) | (prev_indices[1:] != indices[:-1])
    firsts = np.flatnonzero(starts)
    seeds = prev_indices[firsts]
    reachable = (seeds > 0) & (seeds < space.past_end)
    backend.write_records(
        records=records,
        write_offsets=np.concatenate((firsts, [len(indices)])).astype(np.int64),
        write_seed_slot_indices=np.where(reachable, seeds, NO_SEED),
        input_ids=block.expected_tokens,
        positions=block.expected_positions,
        out_cache_loc=np.where(usable, indices, SKIP_WRITE),
        real_kv_hashes=real[np.where(usable, indices, 0)],
        tag=tag,
    )
