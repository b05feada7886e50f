"""One pool at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import RealKvHashMode
from kvaudit.core.kv_column import KvColumn, RowColumn
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.layout import SlotRanges
from kvaudit.errors import SnapshotInconsistent, ValuesInvalid


class DumpMoment(StrEnum):
    """When within a step a dump was taken; unknown is judged as step_end."""

    STEP_END = "step_end"
    MID_STEP = "mid_step"
    UNKNOWN = "unknown"


class DigestGrain(StrEnum):
    """What one digest or stamped hash is of."""

    SLOT = "slot"
    PAGE = "page"


class AllocState(StrEnum):
    """What an allocator says of a slot."""

    FREE = "free"
    LIVE = "live"
    CACHED = "cached"
    NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolKey:
    """The pairing key of a file: two files of one key and kind in a set are an input error.

    Fields:
        instance: the engine process, such as `prefill-0`; None when not given.
        group: `target`, `draft` or an engine's cache group; None when not given.
        pool: the pool's name; defaults to its kind.
        pool_kind: FULL or SWA.
        tier: `device`, `host` or `disk`; None when not given.
        rank: the rank that owns the pool; None when not given.
        step: the step of the dump; None when not given.
    """

    instance: str | None = None
    group: str | None = None
    pool: str = ""
    pool_kind: PoolKind = PoolKind.FULL
    tier: str | None = None
    rank: int | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        if not self.pool:
            object.__setattr__(self, "pool", str(self.pool_kind))

    def given(self) -> dict[str, str | int]:
        """The parts that are given or have a default, by name, in the order of the key."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return {
            name: value if isinstance(value, int) else str(value)
            for name, value in values.items()
            if value is not None
        }

    def is_beside(self, other: PoolKey) -> bool:
        """Whether both are pools of one engine process, group, tier, rank and step."""
        mine, others = (replace(key, pool="", pool_kind=PoolKind.FULL) for key in (self, other))
        return mine == others

    def place(self) -> dict[str, str | int | None]:
        """Where the pool lies, whatever the step, as keys of the JSON report."""
        return {
            "instance": self.instance,
            "group": self.group,
            "pool": self.pool,
            "tier": self.tier,
            "rank": self.rank,
        }

    def pairs_with(self, other: PoolKey) -> bool:
        """Whether both are keys of one pool; a step that one of them does not give fits any."""
        if self.step is None or other.step is None:
            return replace(self, step=None) == replace(other, step=None)
        return self == other

    def label(self) -> str:
        """The given parts as one word for people, such as `decode-0.target.FULL.r3`."""
        parts = [self.instance, self.group, self.pool, self.tier]
        words = [part for part in parts if part]
        if self.rank is not None:
            words.append(f"r{self.rank}")
        return ".".join(words)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """What a pool held at one moment. A row is a slot; rows may be dense or sparse.

    Slots are strictly ascending, not negative and below num_slots. All columns have num_rows rows.
    KV columns are keyed by their own name `kv.<half>.<layer>` or `kv.side.<name>`, and so are
    `stamped` and `digests`, whatever their names in the file. Where digests are of pages, all rows
    of a page carry the one hash of them all, and no column holds records or bytes.

    Fields:
        path: the file as the user wrote it, for messages; "" in memory.
        slots: slot of each row, shape [num_rows], int64.
        num_slots: slots of the pool, at least the last slot + 1.
        page_size: slots a page.
        reserved_slots: slots that hold no sequence; if 0 is not among them it is a real slot.
        key: the pairing key.
        at: when within the step the dump was taken.
        real_kv_hash_mode: what the records' real_kv_hash covers.
        stamped_columns: KV columns in fold order of the combined hash.
        token_offset: kv_token_id_vs_position_offset: position p holds token p + token_offset.
        position_offset: what the engine added to each stored position.
        digest_grain: what a digest is of: a slot, or the rows of a page, combined in slot order.
        window: sliding-window length in tokens; None for all positions.
        canary: record columns by `<k|v>.<head|tail>`; values shape [num_rows, 4], int64.
        kv: KV bytes by column name.
        stamped: source hash of a column when stamped, by KV column name; shape [num_rows], int64.
        digests: source hash of a column at dump time, by KV column name; shape [num_rows], int64.
        evidence: `swa_slot`, `alloc.ref`, `alloc.state`, `alloc.owner`, `written_step`,
            `stamped_step`; shape [num_rows], int64, int32 or object (str | None).
        metadata: every other metadata key of the file, without the `kvaudit.` prefix.
        checksummed: whether the file carries chunk digests.
    """

    path: str = ""
    slots: NDArray[np.int64]
    num_slots: int
    page_size: int
    reserved_slots: SlotRanges = SlotRanges(((0, 0),))
    key: PoolKey = PoolKey()
    at: DumpMoment = DumpMoment.UNKNOWN
    real_kv_hash_mode: RealKvHashMode = RealKvHashMode.NONE
    stamped_columns: tuple[str, ...] = ()
    token_offset: int = 0
    position_offset: int = 0
    digest_grain: DigestGrain = DigestGrain.SLOT
    window: int | None = None
    canary: Mapping[str, RowColumn] = field(default_factory=dict)
    kv: Mapping[str, KvColumn] = field(default_factory=dict)
    stamped: Mapping[str, RowColumn] = field(default_factory=dict)
    digests: Mapping[str, RowColumn] = field(default_factory=dict)
    evidence: Mapping[str, RowColumn] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    checksummed: bool = True

    def __post_init__(self) -> None:
        if self.page_size < 1:
            raise ValuesInvalid(
                f"page_size is {self.page_size}",
                path=self.path or None,
                hint="give a page_size >= 1",
            )
        self._check_slots()
        if self.digest_grain is DigestGrain.PAGE and (self.canary or self.kv):
            raise SnapshotInconsistent(
                "its digests are of pages, beside records or bytes of slots",
                path=self.path or None,
                hint="dump the digests of slots, or no records and no bytes",
            )
        for column in self.kv.values():
            if column.num_rows != self.num_rows:
                raise SnapshotInconsistent(
                    f"{column.num_rows} rows, but there are {self.num_rows} slots",
                    path=self.path or None,
                    column=column.name,
                    hint="give every column a row a slot",
                )

    def _check_slots(self) -> None:
        if self.num_rows == 0:
            return
        falls = np.flatnonzero(self.slots[1:] <= self.slots[:-1])
        if falls.size:
            row = int(falls[0]) + 1
            raise ValuesInvalid(
                f"slot {self.slots[row]} follows slot {self.slots[row - 1]}",
                path=self.path or None,
                column="slot",
                row=row,
                hint="sort the rows by slot and keep one row a slot",
            )
        if self.slots[0] < 0:
            raise ValuesInvalid(
                f"slot {self.slots[0]} is negative",
                path=self.path or None,
                column="slot",
                row=0,
                hint="dump slots of the pool alone, from 0 on",
            )
        if int(self.slots[-1]) >= self.num_slots:
            raise ValuesInvalid(
                f"slot {self.slots[-1]} is past num_slots {self.num_slots}",
                path=self.path or None,
                column="slot",
                row=self.num_rows - 1,
                hint="correct kvaudit.num_slots, or leave it out",
            )

    @property
    def num_rows(self) -> int:
        """Rows, which are the slots dumped."""
        return int(self.slots.shape[0])

    @property
    def is_dense(self) -> bool:
        """Whether the rows are consecutive slots."""
        return self.num_rows > 0 and int(self.slots[-1] - self.slots[0]) + 1 == self.num_rows

    def rows_of(self, slot_indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each slot, shape [n], int64; -1 where the snapshot has no such slot."""
        if self.num_rows == 0:
            return np.full(slot_indices.shape, -1, dtype=np.int64)
        if self.is_dense:
            rows: NDArray[np.int64] = slot_indices - self.slots[0]
            rows[(rows < 0) | (rows >= self.num_rows)] = -1
            return rows
        rows = np.searchsorted(self.slots, slot_indices).astype(np.int64, copy=False)
        rows[rows == self.num_rows] = 0
        rows[self.slots[rows] != slot_indices] = -1
        return rows

    def hashed_with(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows that the hashes of some rows, shape [n], int64, are of; [k], int64, ascending.

        Where digests are of pages, all rows of a page have one hash.
        """
        if self.digest_grain is DigestGrain.SLOT:
            return np.unique(rows)
        first_slots = np.unique(self.slots[rows] // self.page_size) * self.page_size
        firsts = np.searchsorted(self.slots, first_slots)
        counts = np.searchsorted(self.slots, first_slots + self.page_size) - firsts
        shifts = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
        rows_of_pages: NDArray[np.int64] = np.arange(len(shifts), dtype=np.int64) + shifts
        return rows_of_pages
