"""One dump of a comparison: which of its rows hold content, whose they are, and what names it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.backend import Backend
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import ALL_ENTRIES, Scope
from kvaudit.core.held_slots import HeldSlots
from kvaudit.core.planner import window_of
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import AllocState, Snapshot
from kvaudit.runner.expectations import merged_sequences
from kvaudit.runner.row_space import RowSpace
from kvaudit.runner.slot_content import SlotContent

# Buffers whose records say what a slot holds, the surest first: a head is written before the KV.
_BUFFERS: Final = ("k.tail", "v.tail", "k.head", "v.head")
_HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contents:
    """The rows of a dump whose content has a name.

    Fields:
        rows: shape [n], int64, ascending.
        ids: equal where the content is the same token after the same ones, shape [n], uint64.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.uint64]


class Side:
    """A dump of the comparison.

    Args:
        pool: the snapshot with its expectations.
        letter: `A`, `B` or `C`, as the files were given.
        backend: what hashes its records.
        scope: the requests to compare.
    """

    def __init__(
        self, pool: AuditedPool, *, letter: str, backend: Backend, scope: Scope = ALL_ENTRIES
    ) -> None:
        self.pool = pool
        self.snapshot: Snapshot = pool.snapshot
        self.letter = letter
        self.space = RowSpace(self.snapshot)
        self.content = SlotContent(self.snapshot, space=self.space, backend=backend)
        self._scope = scope
        self._records: dict[str, NDArray[np.int64]] = {}

    @cached_property
    def sequences(self) -> Sequences | None:
        """All its sequence files as one; None without any."""
        return merged_sequences(self.pool.sequences)

    @cached_property
    def held(self) -> HeldSlots | None:
        """What live sequences hold; None without sequences."""
        if self.sequences is None:
            return None
        return HeldSlots(sequences=self.sequences, window=window_of(self.snapshot))

    @cached_property
    def held_rows(self) -> NDArray[np.int64]:
        """The row of each held element, shape [n], int64; -1 where the dump has none."""
        if self.held is None:
            return np.empty(0, dtype=np.int64)
        return self.snapshot.rows_of(self.held.slots)

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """The sequence of each held element, shape [n], int64."""
        if self.held is None:
            return np.empty(0, dtype=np.int64)
        return np.repeat(np.arange(self.held.sequences.num_sequences), np.diff(self.held.offsets))

    @cached_property
    def in_scope(self) -> NDArray[np.bool_]:
        """Which sequences are compared, shape [num_sequences], bool."""
        if self.sequences is None:
            return np.empty(0, dtype=np.bool_)
        return self._scope.admits_requests(self.sequences.request_ids)

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Rows that hold something by right, shape [num_rows], bool.

        Not so are reserved slots, free ones that no live sequence holds, and what a copy in flight
        alone has.
        """
        snapshot = self.snapshot
        usable = ~snapshot.reserved_slots.mask(snapshot.slots)
        if "alloc.state" in snapshot.evidence:
            states = snapshot.evidence["alloc.state"].read()
            usable &= self.claimed | ((states != AllocState.FREE) & (states != AllocState.NULL))
        if self.sequences is not None:
            arriving = HeldSlots(sequences=self.sequences, states=(SequenceState.IN_FLIGHT,))
            usable &= self.claimed | ~self._mask(snapshot.rows_of(arriving.slots))
        if self._scope.request_ids:
            usable &= self._mask(self.held_rows[self.in_scope[self.owners]])
        return usable

    @cached_property
    def claimed(self) -> NDArray[np.bool_]:
        """Rows that a live sequence holds, shape [num_rows], bool."""
        return self._mask(self.held_rows)

    def _mask(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        mask = np.zeros(self.snapshot.num_rows, dtype=np.bool_)
        mask[rows[rows >= 0]] = True
        return mask

    @cached_property
    def buffers(self) -> tuple[str, ...]:
        """The record columns that hold any record, the surest first."""
        return tuple(
            name
            for name in _BUFFERS
            if name in self.snapshot.canary
            and self.space.holds_records(self.space.records(self.snapshot.canary[name]))
        )

    def records(self, buffer: str) -> NDArray[np.int64]:
        """The records of a column, shape [num_rows, 4], int64; those never stamped are zero."""
        if buffer not in self._records:
            records: NDArray[np.int64] = self.snapshot.canary[buffer].read()
            never = self.space.never_stamped
            self._records[buffer] = (
                records if never is None else np.where(never[:, None], 0, records)
            )
        return self._records[buffer]

    @cached_property
    def stamped(self) -> Contents | None:
        """What the records name; None without any."""
        if not self.buffers:
            return None
        buffer = self.buffers[0]
        rows = np.flatnonzero(self.records(buffer).any(axis=1) & self.usable)
        return Contents(rows=rows, ids=self.content.slot_hashes(buffer)[rows])

    @cached_property
    def told(self) -> Contents | None:
        """What the tokens of sequences name; None where none are known."""
        if self.held is None:
            return None
        elements = np.flatnonzero(self.held_rows >= 0)
        elements = elements[self.usable[self.held_rows[elements]]]
        rows, firsts = np.unique(self.held_rows[elements], return_index=True)
        ids, known = self.held.histories_of(elements[firsts])
        if not known.any():
            return None
        return Contents(rows=rows[known], ids=ids[known])

    @cached_property
    def has_extra_keys(self) -> bool:
        """Whether any sequence states an extra key."""
        return self.sequences is not None and any(
            key is not None for key in self.sequences.extra_keys
        )

    def keyed(self, contents: Contents) -> Contents:
        """The contents, told apart by the extra keys of the sequences that hold them."""
        if self.held is None:
            return contents
        of_sequence = np.array([_key_hash(k) for k in self.held.sequences.extra_keys], np.uint64)
        of_row = np.zeros(self.snapshot.num_rows, dtype=np.uint64)
        # The first holder of a row counts: it is written last.
        known = np.flatnonzero(self.held_rows >= 0)[::-1]
        of_row[self.held_rows[known]] = of_sequence[self.owners[known]]
        return Contents(rows=contents.rows, ids=contents.ids ^ of_row[contents.rows])


def _key_hash(extra_key: str | None) -> int:
    """A number for an extra key, the same in every dump; 0 for none."""
    if extra_key is None:
        return 0
    digest = hashlib.blake2b(extra_key.encode(errors="surrogatepass"), digest_size=_HASH_BYTES)
    return int.from_bytes(digest.digest(), "little")
