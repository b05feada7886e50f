"""The records family: every planned entry's token, position, chain and combined hash.

One canary column at a time is in memory, and one block of entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    NO_EXPECTED_TOKEN,
    PADDING_SLOT,
    PREDECESSOR_UNREACHABLE,
    FailReason,
    LaunchTag,
)
from kvaudit.core.backend import Backend
from kvaudit.core.column_names import canary_name
from kvaudit.core.entries import EntryBlock, EntrySource, to_engine_slots
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.observer import RunObserver
from kvaudit.core.report import TagCounters
from kvaudit.core.snapshot import Snapshot
from kvaudit.core.violation import Violation
from kvaudit.runner.canary_columns import column_of, tags_of_columns
from kvaudit.runner.canary_launch import CanaryLaunch, launch_of
from kvaudit.runner.failed_entries import FAILED_ENTRY, FailedEntries, violations_of
from kvaudit.runner.row_space import RowSpace

_REAL_KV_HASH_DIFFERS = np.uint32(FailReason.VERIFY_REAL_KV_HASH_MISMATCH)


@dataclass(slots=True, kw_only=True, eq=False)
class RecordsResult:
    """What the pass counted and found; entries are counted once a tag.

    Fields:
        planned: entries, padding and unstamped ones included.
        checked: entries judged.
        skipped_padding: entries of slot 0 in stamped columns.
        predecessor_unreachable: judged entries without a chain check.
        not_in_snapshot: entries whose slot, or whose column, the file lacks.
        unstamped: entries of all-zero columns and of slots never stamped.
        disabled_launches: launches whose plan had enable 0.
        unstamped_columns: canary columns that hold no record.
        tags: counters of each launch that ran.
        violations: the first failed entries of each tag.
        violations_total: failed entries, exact.
        real_kv_differences: entries that only a mid-step dump excuses.
    """

    planned: int = 0
    checked: int = 0
    skipped_padding: int = 0
    predecessor_unreachable: int = 0
    not_in_snapshot: int = 0
    unstamped: int = 0
    disabled_launches: int = 0
    unstamped_columns: list[str] = field(default_factory=list)
    tags: list[TagCounters] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    violations_total: int = 0
    real_kv_differences: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordsPass:
    """One pool's records family.

    Fields:
        snapshot: the pool.
        space: its row space.
        backend: what verifies.
        observer: told of progress.
        sources: what names the entries.
        combined: expected combined hash of each half that has one, by index.
        max_rows: rows to keep of each tag.
    """

    snapshot: Snapshot
    space: RowSpace
    backend: Backend
    observer: RunObserver
    sources: tuple[EntrySource, ...]
    combined: Mapping[KvHalf, NDArray[np.uint64]]
    max_rows: int

    def run(self) -> RecordsResult:
        """Judge every entry of every tag."""
        result = RecordsResult(disabled_launches=self._disabled_launches())
        by_tag, by_column = self._sources_by_tag(), dict[str, dict[LaunchTag, list[int]]]()
        for tag in sorted(by_tag):
            by_column.setdefault(column_of(tag), {})[tag] = by_tag[tag]
        used = [idx for indices in by_tag.values() for idx in indices]
        self.observer.stage("records", sum(self.sources[idx].num_entries for idx in used))
        for column, of_column in by_column.items():
            self._judge_column(column, of_column, result)
        return result

    def _disabled_launches(self) -> int:
        """Disabled launches, whatever columns there are; a plan for unknown launches counts once."""
        allowed = tags_of_columns(self.snapshot)
        tags = [
            allowed if source.tags is None else source.tags
            for source in self.sources
            if not source.enabled
        ]
        return sum(max(1, len(used)) for used in tags)

    def _sources_by_tag(self) -> dict[LaunchTag, list[int]]:
        """The sources of each tag, as numbers into `sources`."""
        allowed = tags_of_columns(self.snapshot)
        by_tag: dict[LaunchTag, list[int]] = {}
        for source_idx, source in enumerate(self.sources):
            for tag in allowed if source.tags is None else source.tags:
                by_tag.setdefault(tag, []).append(source_idx)
        return by_tag

    def _judge_column(
        self, name: str, by_tag: Mapping[LaunchTag, list[int]], result: RecordsResult
    ) -> None:
        """Judge the tags that read one canary column, each with its sources."""
        column = self.snapshot.canary.get(name)
        records = None if column is None else self.space.records(column)
        stamped = records is not None and self.space.holds_records(records)
        if records is not None and not stamped:
            result.unstamped_columns.append(canary_name(name))
        for tag, source_indices in by_tag.items():
            entries = sum(self.sources[idx].num_entries for idx in source_indices)
            result.planned += entries
            if records is None:
                result.not_in_snapshot += entries
                self.observer.advance(entries)
            elif stamped:
                launch = launch_of(tag, records, snapshot=self.snapshot, combined=self.combined)
                self._judge_tag(launch, source_indices, result)
            else:
                result.unstamped += entries
                self.observer.advance(entries)

    def _judge_tag(
        self, launch: CanaryLaunch, source_indices: list[int], result: RecordsResult
    ) -> None:
        failed = FailedEntries(self.max_rows)
        slots_run = checked = 0
        for source_idx in source_indices:
            source = self.sources[source_idx]
            if not source.enabled:
                self.observer.advance(source.num_entries)
                continue
            for block in source.blocks():
                slots_run += len(block)
                checked += self._judge_block(
                    launch, block, result, source_idx=source_idx, failed=failed
                )
                self.observer.advance(len(block))
        result.checked += checked
        result.violations_total += failed.total
        result.tags.append(
            TagCounters(
                tag=launch.tag.name,
                kernel_runs=len(source_indices),
                slots_run=slots_run,
                checked=checked,
                violations=failed.total,
            )
        )
        result.violations += violations_of(
            failed.kept,
            tag=launch.tag,
            sources=self.sources,
            records=launch.records,
            backend=self.backend,
            key=self.snapshot.key,
            real_kv_hash_judged=launch.real_kv_hash_judged,
        )

    def _judge_block(
        self,
        launch: CanaryLaunch,
        block: EntryBlock,
        result: RecordsResult,
        *,
        source_idx: int,
        failed: FailedEntries,
    ) -> int:
        """Judge one block; returns how many entries of it were judged."""
        indices, prev_indices = self._indices(block, result)
        real = None
        if launch.real_kv_hashes is not None:
            real = launch.real_kv_hashes.take(indices, mode="clip")
        check_tokens = self.sources[source_idx].check_expected_token
        reasons = self.backend.verify(
            records=launch.records,
            slot_indices=indices,
            expected_tokens=block.expected_tokens,
            expected_positions=block.expected_positions,
            prev_slot_indices=prev_indices,
            real_kv_hashes=real,
            tag=launch.tag,
            check_expected_token=check_tokens,
        )
        if not launch.real_kv_hash_judged:
            if real is not None:
                result.real_kv_differences += int(np.count_nonzero(reasons & _REAL_KV_HASH_DIFFERS))
            reasons = reasons & ~_REAL_KV_HASH_DIFFERS
        if reasons.any():
            at = np.flatnonzero(reasons)
            rows = np.zeros(len(at), dtype=FAILED_ENTRY)
            rows["source"], rows["entry"] = source_idx, block.entry_indices[at]
            rows["slot"] = to_engine_slots(block.slot_indices[at], self.space.slot_shift)
            rows["index"], rows["prev_index"] = indices[at], prev_indices[at]
            rows["position"] = self.space.stored_positions(launch.records, indices[at])
            rows["expected_token"] = (
                block.expected_tokens[at] if check_tokens else NO_EXPECTED_TOKEN
            )
            rows["expected_position"] = block.expected_positions[at]
            rows["expected_real_kv_hash"] = 0 if real is None else real[at]
            rows["reasons"] = reasons[at]
            failed.add(rows)
        return int(np.count_nonzero(indices))

    def _indices(
        self, block: EntryBlock, result: RecordsResult
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The block's slots and predecessors as indices; 0 where an entry is not judged."""
        indices = self.space.indices_of(block.slot_indices)
        prev_indices = self.space.indices_of(block.prev_slot_indices)
        if not indices.all():
            padding = int(np.count_nonzero(block.slot_indices == PADDING_SLOT))
            result.skipped_padding += padding
            result.not_in_snapshot += int(np.count_nonzero(indices == 0)) - padding
        if self.space.never_stamped_indices is not None:
            never = self.space.never_stamped_indices[indices]
            result.unstamped += int(np.count_nonzero(never))
            indices = np.where(never, PADDING_SLOT, indices)
        unreachable = (prev_indices == PREDECESSOR_UNREACHABLE) & (indices != PADDING_SLOT)
        result.predecessor_unreachable += int(np.count_nonzero(unreachable))
        return indices, prev_indices
