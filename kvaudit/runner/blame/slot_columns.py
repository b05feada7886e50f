"""The digests of one slot's KV columns, and what its records' combined hashes should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PARTIAL_READ_BYTES, RealKvHashMode
from kvaudit.core.backend import Backend
from kvaudit.core.column_names import column_half, column_order, tail_of
from kvaudit.core.kv_column import KvColumn, RowColumn
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.slot_facts import ColumnDigests
from kvaudit.core.snapshot import Snapshot
from kvaudit.diagnosis.byte_rows import solved_words
from kvaudit.diagnosis.nonfinite import knows, nonfinite_elements


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotColumns:
    """One row of a snapshot's KV columns.

    Fields:
        snapshot: the pool.
        backend: what folds.
        row: the row.
    """

    snapshot: Snapshot
    backend: Backend
    row: int

    @cached_property
    def digests(self) -> list[ColumnDigests]:
        """Every column, in layer order.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        return [self._solved(column) for column in self._own]

    @cached_property
    def _own(self) -> list[ColumnDigests]:
        """The columns with the hashes that are of them alone."""
        snapshot = self.snapshot
        names = {*snapshot.kv, *snapshot.digests, *snapshot.stamped}
        return [self._digests_of(name) for name in sorted(names, key=column_order)]

    def _digests_of(self, name: str) -> ColumnDigests:
        snapshot = self.snapshot
        column = snapshot.kv.get(name)
        digests = ColumnDigests(
            name=name,
            dtype="" if column is None else column.dtype,
            stamped=self._value(snapshot.stamped.get(name), unless_all_zero=True),
            dumped=self._value(snapshot.digests.get(name)),
            recomputed=None if column is None else int(self.backend.fold(column, self._rows)[0]),
        )
        return replace(digests, pattern=self._pattern(digests))

    @property
    def _rows(self) -> NDArray[np.int64]:
        return np.array([self.row], dtype=np.int64)

    def _value(self, column: RowColumn | None, *, unless_all_zero: bool = False) -> int | None:
        """A column's value in the row, unsigned; None without a column, or one that is never set."""
        if column is None:
            return None
        values: NDArray[Any] = column.read().view(np.uint64)
        value = int(values[self.row])
        return None if unless_all_zero and not value and not values.any() else value

    def _hashed_bytes(self, name: str) -> NDArray[np.uint8] | None:
        """The bytes of a column that its own hash covers, shape [1, num_bytes]; None without any."""
        column = self.snapshot.kv.get(name)
        if column is None:
            return None
        return column.read_rows(self.row, self.row + 1)[:, : column.read_bytes]

    def _pattern(self, digests: ColumnDigests) -> str:
        """What the bytes look like where that alone says something; zero bytes hash to 0."""
        if digests.held == 0:
            return "all zero"
        data = self._hashed_bytes(digests.name)
        if data is None:
            return ""
        parts = []
        num_bytes = data.shape[1]
        used = np.flatnonzero(data[0])
        first_zero = int(used[-1]) + 1
        if num_bytes - first_zero >= PARTIAL_READ_BYTES:
            parts.append(f"zero from byte {first_zero} on")
        if knows(digests.dtype):
            count = int(np.count_nonzero(nonfinite_elements(data, digests.dtype)))
            if count:
                parts.append(f"{count} elements are NaN or infinite")
        return ", ".join(parts)

    @cached_property
    def combined(self) -> Mapping[KvHalf, int]:
        """The combined hash of what each half holds now, where all of its columns are in the file."""
        found = {}
        for half in KvHalf:
            hashes = self._source_hashes(half)
            if hashes:
                parts = [np.array([value], dtype=np.uint64) for value in hashes]
                found[half] = int(self.backend.combine(parts)[0])
        return found

    def _sources(self, half: KvHalf) -> tuple[str, ...]:
        """The columns of a half's combined hash, in fold order."""
        if self.snapshot.real_kv_hash_mode is RealKvHashMode.NONE:
            return ()
        return tuple(name for name in self.snapshot.stamped_columns if column_half(name) is half)

    def _source_hashes(self, half: KvHalf) -> list[int]:
        """What goes into a half's combined hash, in fold order; empty where a column lacks."""
        hashes: list[int] = []
        held = {column.name: column.held for column in self._own}
        for name in self._sources(half):
            value = held.get(name)
            if self.snapshot.real_kv_hash_mode is RealKvHashMode.PARTIAL:
                value = self._leading_hash(name)
            if value is None:
                return []
            hashes.append(value)
        return hashes

    def _leading_hash(self, name: str) -> int | None:
        column = self.snapshot.kv.get(name)
        if column is None:
            return None
        folded = self.backend.fold(column, self._rows, read_bytes=_leading_bytes(column))
        return int(folded[0])

    def expected_real_kv_hash(self, buffer: str) -> int | None:
        """What a record's combined hash must be; None where nothing is expected or known.

        A head is stamped before the forward: it expects 0, as do a tail without sources and mode
        none.
        """
        half = KvHalf.K if buffer.startswith("k.") else KvHalf.V
        if buffer != tail_of(half) or not self._sources(half):
            return 0
        return self.combined.get(half)

    def _solved(self, digests: ColumnDigests) -> ColumnDigests:
        """The column with the hash that it must have had, if its half's combined hash alone tells."""
        if digests.stamped is not None:
            return digests
        solved = self._solved_by_half.get(column_half(digests.name), {}).get(digests.name)
        kv = self.snapshot.kv.get(digests.name)
        is_partial = self.snapshot.real_kv_hash_mode is RealKvHashMode.PARTIAL
        if solved is None or not is_partial or kv is None or kv.read_bytes == _leading_bytes(kv):
            return replace(digests, solved=solved)
        return replace(digests, solved=solved, solved_bytes=_leading_bytes(kv))

    @cached_property
    def _solved_by_half(self) -> dict[KvHalf, dict[str, int]]:
        """For each half whose combined hash is wrong: what each column's hash must have been."""
        found: dict[KvHalf, dict[str, int]] = {}
        for half, now in self.combined.items():
            stored = self._stored_real_kv_hash(half)
            if stored is None or stored == now:
                continue
            hashes = np.array([self._source_hashes(half)], dtype=np.uint64)
            solved = solved_words(hashes, np.array([stored], dtype=np.uint64))[0]
            found[half] = dict(zip(self._sources(half), solved.tolist(), strict=True))
        return found

    def _stored_real_kv_hash(self, half: KvHalf) -> int | None:
        """The combined hash in a half's tail record; None without a record."""
        column = self.snapshot.canary.get(tail_of(half))
        if column is None:
            return None
        record = column.read()[self.row].view(np.uint64)
        return int(record[-1]) if record.any() else None


def _leading_bytes(column: KvColumn) -> int:
    """The bytes of a row that mode partial covers."""
    return min(PARTIAL_READ_BYTES, column.row_bytes)
