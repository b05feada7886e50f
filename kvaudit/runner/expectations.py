"""What a pool is expected to hold: its sequences as one, and the plan rows of its step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import EntrySource, Scope, slot_shift_of
from kvaudit.core.launch_entries import LaunchEntries
from kvaudit.core.launch_tag import PoolKind, pool_kind_of
from kvaudit.core.plan import PlanDump, PlannedLaunch
from kvaudit.core.planner import SequenceEntries, window_of
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expectations:
    """The entry sources of one pool.

    Fields:
        sequences: all its sequence files as one; None without any.
        sequence_entries: their entries; None without any.
        launch_entries: the launches of the plans that are judged, in file order.
        notes: what to say of a file, by its path.
    """

    sequences: Sequences | None
    sequence_entries: SequenceEntries | None
    launch_entries: tuple[LaunchEntries, ...]
    notes: Mapping[str, str]

    @property
    def sources(self) -> tuple[EntrySource, ...]:
        """Everything that names entries."""
        sequences = () if self.sequence_entries is None else (self.sequence_entries,)
        return (*sequences, *self.launch_entries)

    def request_ids(self) -> set[str]:
        """Every request that an expectation names."""
        names = set() if self.sequences is None else set(self.sequences.request_ids)
        for entries in self.launch_entries:
            names.update(entries.launch.request_ids or ())
        return names


def expectations_of(pool: AuditedPool, scope: Scope) -> Expectations:
    """Collect what is expected of a pool, within a scope."""
    snapshot = pool.snapshot
    slot_shift = slot_shift_of(snapshot)
    sequences = merged_sequences(pool.sequences)
    entries = None
    if sequences is not None:
        entries = SequenceEntries(
            sequences=sequences,
            scope=scope,
            slot_shift=slot_shift,
            token_offset=snapshot.token_offset,
            position_offset=snapshot.position_offset,
            window=window_of(snapshot),
        )
    launches: list[LaunchEntries] = []
    notes: dict[str, str] = {}
    for plan in pool.plans:
        chosen, note = launches_of_step(plan, snapshot.key.step, kind=snapshot.key.pool_kind)
        launches += [
            LaunchEntries(launch=launch, scope=scope, slot_shift=slot_shift) for launch in chosen
        ]
        if note:
            notes[plan.path] = note
    return Expectations(
        sequences=sequences,
        sequence_entries=entries,
        launch_entries=tuple(launches),
        notes=notes,
    )


def scope_of(options: AuditOptions) -> Scope:
    """Which entries the options leave to be judged."""
    return Scope(request_ids=frozenset(options.request_ids), slots=options.slots)


def swa_pool_of(pool: AuditedPool, pools: Sequence[AuditedPool]) -> Snapshot | None:
    """The window pool of the same engine, rank and step; None where there is not exactly one."""
    key = pool.snapshot.key
    found = [
        other.snapshot
        for other in pools
        if other.snapshot.key.pool_kind is PoolKind.SWA and key.is_beside(other.snapshot.key)
    ]
    return found[0] if len(found) == 1 else None


def launches_of_step(
    plan: PlanDump, step: int | None, *, kind: PoolKind
) -> tuple[list[PlannedLaunch], str]:
    """The rows that tell what a snapshot of a step holds, each with the tags it is used for.

    Rows of the step itself, else the last step of each tag. Launches of the other pool kind are
    another pool's.

    Returns:
        the rows, and a note for people, "" when the plan has the step.
    """
    rows = _with_tags(plan.launches, lambda _, tag: pool_kind_of(tag) is kind)
    of_step = [launch for launch in rows if step is not None and launch.step == step]
    if of_step or not rows:
        return of_step, ""
    last_steps: dict[LaunchTag | None, int] = {}
    for launch in rows:
        for tag in (None,) if launch.tags is None else launch.tags:
            last_steps[tag] = max(last_steps.get(tag, _step_number(launch)), _step_number(launch))
    chosen = [
        launch
        for launch in _with_tags(rows, lambda row, tag: last_steps[tag] == _step_number(row))
        if launch.tags is not None or last_steps[None] == _step_number(launch)
    ]
    why = "the snapshot gives no step" if step is None else f"no row of step {step}"
    steps = _joined(sorted(set(last_steps.values())))
    return chosen, f"{why}: judged by the last step of each tag ({steps})"


def merged_sequences(files: Sequence[Sequences]) -> Sequences | None:
    """The sequences of all files as one, in input order; None without a file."""
    if not files:
        return None
    if len(files) == 1:
        return files[0]
    return Sequences(
        path=files[0].path,
        key=files[0].key,
        request_ids=[name for file in files for name in file.request_ids],
        token_offsets=_joined_offsets([file.token_offsets for file in files]),
        tokens=np.concatenate([file.tokens for file in files]),
        slot_offsets=_joined_offsets([file.slot_offsets for file in files]),
        slots=np.concatenate([file.slots for file in files]),
        kv_lens=np.concatenate([file.kv_lens for file in files]),
        start_positions=np.concatenate([file.start_positions for file in files]),
        prompt_lens=np.concatenate([file.prompt_lens for file in files]),
        states=[state for file in files for state in file.states],
        extra_keys=[key for file in files for key in file.extra_keys],
    )


def _joined_offsets(offsets: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Prefix sums of consecutive lists as the prefix sums of their concatenation."""
    lengths = np.concatenate([np.diff(part) for part in offsets])
    return np.concatenate(([0], np.cumsum(lengths)))


def _with_tags(
    launches: Iterable[PlannedLaunch], keeps: Callable[[PlannedLaunch, LaunchTag], bool]
) -> list[PlannedLaunch]:
    """The rows with those of their tags that are kept; one that keeps none is no row."""
    kept = []
    for launch in launches:
        if launch.tags is None:
            kept.append(launch)
        elif tags := tuple(tag for tag in launch.tags if keeps(launch, tag)):
            kept.append(replace(launch, tags=tags))
    return kept


def _step_number(launch: PlannedLaunch) -> int:
    return -1 if launch.step is None else launch.step


def _joined(steps: Iterable[int]) -> str:
    return ", ".join(f"step {step}" for step in steps)
