"""The records family: every planned entry's token, position, chain and combined hash.

One canary column at a time is in memory, and a few blocks of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.backend import Backend
from kvaudit.core.column_names import canary_name
from kvaudit.core.entries import EntrySource
from kvaudit.core.failed_rows import FailedRows
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.observer import RunObserver
from kvaudit.core.report import TagCounters
from kvaudit.core.snapshot import Snapshot
from kvaudit.core.violation import Violation
from kvaudit.runner.block_judge import BlockJudge, JudgedBlock
from kvaudit.runner.canary_columns import column_of, tags_of_columns
from kvaudit.runner.canary_launch import CanaryLaunch, launch_of
from kvaudit.runner.failed_entries import FailedEntries, failed_rows_of, violations_of
from kvaudit.runner.in_order import in_order
from kvaudit.runner.row_space import RowSpace

# Each block in work holds a few MiB.
_MAX_BLOCKS_AT_ONCE = 8


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
        failed: failed entries of each tag, for the rules.
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
    failed: list[FailedRows] = field(default_factory=list)
    real_kv_differences: int = 0

    def add(self, block: JudgedBlock) -> None:
        """Count the entries of one block."""
        self.checked += block.checked
        self.skipped_padding += block.skipped_padding
        self.predecessor_unreachable += block.predecessor_unreachable
        self.not_in_snapshot += block.not_in_snapshot
        self.unstamped += block.unstamped
        self.real_kv_differences += block.real_kv_differences


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
        # A column without a row says of nothing that it was never stamped: its slots are absent.
        stamped = records is not None and (
            not self.snapshot.num_rows or self.space.holds_records(records)
        )
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
        judge = BlockJudge(launch=launch, space=self.space, backend=self.backend)
        failed = FailedEntries(self.max_rows)
        slots_run = checked = 0
        at_once = min(_MAX_BLOCKS_AT_ONCE, self.backend.max_callers)
        for block in in_order(self._calls(judge, source_indices), max_at_once=at_once):
            slots_run += block.num_entries
            checked += block.checked
            result.add(block)
            if block.failed.size:
                failed.add(block.failed)
            self.observer.advance(block.num_entries)
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
        if failed.total:
            result.failed.append(
                failed_rows_of(
                    failed.diagnosed,
                    tag=launch.tag,
                    records=launch.records,
                    backend=self.backend,
                    row_shift=self.space.row_shift,
                )
            )

    def _calls(
        self, judge: BlockJudge, source_indices: list[int]
    ) -> Iterator[Callable[[], JudgedBlock]]:
        """What judges each block of the enabled sources, in entry order."""
        for source_idx in source_indices:
            source = self.sources[source_idx]
            if not source.enabled:
                self.observer.advance(source.num_entries)
                continue
            for block in source.blocks():
                yield partial(
                    judge.judge,
                    block,
                    source_idx=source_idx,
                    check_tokens=source.check_expected_token,
                )
