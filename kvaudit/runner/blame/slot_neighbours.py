"""The slots beside one slot: in the pool, in the chains expected of it, and in its record's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import CHAIN_ANCHOR, RECORD_POSITION, RECORD_PREV_HASH, RECORD_TOKEN
from kvaudit.core.claims import Claims
from kvaudit.core.slot_readers import Neighbour, SlotClaim, SlotReader
from kvaudit.core.snapshot import Snapshot

# Slots of one role, and readers of one slot, that are listed.
MAX_OF_ROLE: Final = 8
MAX_READERS: Final = 8

BEFORE: Final = "previous slot"
AFTER: Final = "next slot"
EXPECTED_BEFORE: Final = "expected before it"
EXPECTED_AFTER: Final = "expected after it"
CHAINED_BEFORE: Final = "its record is chained to it"
CHAINED_AFTER: Final = "chained to its record"


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotNeighbours:
    """Looks around one row.

    Fields:
        snapshot: the pool.
        row: the row.
        claims: what the expectations say of every slot.
        records: by record column, shape [num_rows, 4] each, uint64.
        slot_hashes: slot hash of each row by record column, shape [num_rows] each, uint64.
    """

    snapshot: Snapshot
    row: int
    claims: Claims
    records: Mapping[str, NDArray[np.uint64]]
    slot_hashes: Mapping[str, NDArray[np.uint64]]

    def all(self, own: Sequence[SlotClaim]) -> list[Neighbour]:
        """Every slot with a role, those in the pool first, then those before it, then those after.

        Args:
            own: the claims on the row's own slot.
        """
        roles: dict[int, list[str]] = {}
        for role, rows in self._by_role(own):
            for row in list(dict.fromkeys(rows))[:MAX_OF_ROLE]:
                if row >= 0:
                    roles.setdefault(row, []).append(role)
        readers = self.readers_of(np.array(list(roles), dtype=np.int64))
        return [self._neighbour(row, names, readers.get(row, [])) for row, names in roles.items()]

    def _by_role(self, own: Sequence[SlotClaim]) -> Iterable[tuple[str, list[int]]]:
        slot = int(self.snapshot.slots[self.row])
        beside = self.snapshot.rows_of(np.array([slot - 1, slot + 1], dtype=np.int64)).tolist()
        yield BEFORE, beside[:1]
        yield AFTER, beside[1:]
        before = [claim.prev_slot for claim in own if claim.prev_slot is not None]
        yield EXPECTED_BEFORE, self.snapshot.rows_of(np.array(before, dtype=np.int64)).tolist()
        yield CHAINED_BEFORE, self._chained_before()
        after = np.flatnonzero(self.claims.prev_rows == self.row)
        yield EXPECTED_AFTER, self.claims.rows[after].tolist()
        yield CHAINED_AFTER, self._chained_after()

    def _chained_before(self) -> list[int]:
        """Rows whose slot hash the row's records store."""
        found: list[int] = []
        for buffer, records in self.records.items():
            prev_hash = records[self.row, RECORD_PREV_HASH]
            if records[self.row].any() and prev_hash and prev_hash != CHAIN_ANCHOR:
                found += self._used(np.flatnonzero(self.slot_hashes[buffer] == prev_hash))
        return found

    def _chained_after(self) -> list[int]:
        """Rows whose records store the row's slot hash."""
        found: list[int] = []
        for buffer, records in self.records.items():
            slot_hash = self.slot_hashes[buffer][self.row]
            if slot_hash:
                found += self._used(np.flatnonzero(records[:, RECORD_PREV_HASH] == slot_hash))
        return found

    def _used(self, rows: NDArray[np.int64]) -> list[int]:
        """The first of some rows that are not reserved: those hold garbage by right."""
        used: list[int] = rows[
            ~self.snapshot.reserved_slots.mask(self.snapshot.slots[rows])
        ].tolist()
        return used[:MAX_OF_ROLE]

    def _neighbour(self, row: int, roles: list[str], readers: list[SlotReader]) -> Neighbour:
        place = Neighbour(slot=int(self.snapshot.slots[row]), roles=roles, readers=readers)
        for records in self.records.values():
            record = records[row].view(np.int64)
            if record.any():
                return Neighbour(
                    slot=place.slot,
                    roles=roles,
                    token=int(record[RECORD_TOKEN]),
                    position=int(record[RECORD_POSITION]),
                    readers=readers,
                )
        return place

    def readers_of(self, rows: NDArray[np.int64]) -> dict[int, list[SlotReader]]:
        """Who reads each of some rows, shape [n], int64; at most MAX_READERS each."""
        members = self._first_claims_on(rows)
        names = self.claims.request_ids_of(members)
        found: dict[int, list[SlotReader]] = {}
        for member, name in zip(members.tolist(), names, strict=True):
            position = int(self.claims.positions[member]) - self.snapshot.position_offset
            readers = found.setdefault(int(self.claims.rows[member]), [])
            reader = SlotReader(request_id=name, position=position)
            if reader not in readers:
                readers.append(reader)
        return {row: readers[:MAX_READERS] for row, readers in found.items()}

    def _first_claims_on(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first claims on each of some rows: of several launches each, for every reader."""
        limit = MAX_READERS * max(1, self._num_sources)
        parts = [np.flatnonzero(self.claims.rows == row)[:limit] for row in rows.tolist()]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    @cached_property
    def _num_sources(self) -> int:
        return len(self.claims.sources)
