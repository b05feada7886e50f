"""Where the content of misplaced records belongs: each record says what it follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    CHAIN_ANCHOR,
    NO_EXPECTED_TOKEN,
    RECORD_POSITION,
    RECORD_PREV_HASH,
)
from kvaudit.core.claims import NO_ROW, UNREACHABLE_ROW, Claims
from kvaudit.core.value_index import ValueIndex
from kvaudit.diagnosis.claim_walk import ClaimWalk
from kvaudit.kernels.hash.arrays import mixed, unmixed

# A token that is solved from a hash is below this by chance once in 2^33.
MAX_TOKEN: Final = 1 << 31


@dataclass(frozen=True, kw_only=True, eq=False)
class ContentHomes:
    """Follows the records of one column to the slots that they were written for.

    The home of a suspect is where its own sequence has the position that it stores, if it is
    chained to what that sequence has before; else the slot behind the home of any record that it is
    chained to; else where what is left of a sequence begins with it; else where an equal record
    stands. What is chained to a misplaced record is misplaced with it, whether or not it failed.

    Fields:
        claims: what the expectations say.
        records: the column, shape [num_rows, 4], uint64.
        slot_hashes: slot hash of each row, shape [num_rows], uint64.
        hashed_rows: rows that a successor could name, shape [n], int64, ascending.
        failed_rows: rows that failed, shape [k], int64, ascending.
        broken_rows: those that failed by their chain check alone, shape [m], int64, ascending.
        doubted_rows: those that did not fail, and that a successor's chain check contradicts.
            Shape [d], int64, ascending.
    """

    claims: Claims
    records: NDArray[np.uint64]
    slot_hashes: NDArray[np.uint64]
    hashed_rows: NDArray[np.int64]
    failed_rows: NDArray[np.int64]
    broken_rows: NDArray[np.int64]
    doubted_rows: NDArray[np.int64]
    _homes: dict[int, int] = field(default_factory=dict)
    _holders: dict[int, int] = field(default_factory=dict)
    _adrift: dict[int, int] = field(default_factory=dict)

    @cached_property
    def suspects(self) -> NDArray[np.int64]:
        """Rows that failed and hold a record, shape [k], int64, ascending."""
        holds_record = (self.records[self.failed_rows] != 0).any(axis=1)
        rows: NDArray[np.int64] = self.failed_rows[holds_record]
        return rows

    @cached_property
    def by_row(self) -> dict[int, int]:
        """The home of each row that is known to hold another row's content."""
        return {row: home for row, home in self._followed.items() if row != home}

    @property
    def adrift(self) -> dict[int, int]:
        """Rows that are chained to misplaced ones and have no home, with the row each is behind."""
        homes = self._followed
        return {row: root for row, root in self._adrift.items() if root in homes}

    @cached_property
    def fitting(self) -> NDArray[np.int64]:
        """Suspects that hold what one of several claims on them expects; shape [n], int64."""
        rows = [row for row, home in self._followed.items() if row == home]
        return np.array(sorted(rows), dtype=np.int64)

    @cached_property
    def first_claims(self) -> NDArray[np.int64]:
        """The first claim on each row, shape [num_rows], int64; -1 where nobody claims it."""
        return self._walk.first_claims

    def holds_its_own(self, row: int) -> bool:
        """Whether a row has the position and the token, which is known, that is asked of it."""
        claim = int(self.first_claims[row])
        known = claim >= 0 and self.claims.tokens[claim] != NO_EXPECTED_TOKEN
        return bool(known) and self._walk.fits(claim, row)

    def could_be_of(self, row: int, other: int) -> bool:
        """Whether a suspect has what another row lacks, and nothing proves it to be of a third."""
        claim = int(self.first_claims[other])
        home = self._followed.get(row, NO_ROW)
        is_open = row in self._failed and other in self._failed and home not in self._failed
        return is_open and claim >= 0 and self._walk.fits(claim, row)

    @cached_property
    def _walk(self) -> ClaimWalk:
        return ClaimWalk(claims=self.claims, records=self.records)

    @cached_property
    def _followed(self) -> dict[int, int]:
        positions = self.records[self.suspects, RECORD_POSITION]
        ordered = self.suspects[np.argsort(positions, kind="stable")]
        # A broken chain behind a bad row is mostly that row's doing, which must be known first.
        waits = np.isin(ordered, self.broken_rows)
        waits &= np.isin(self._prev_rows(ordered), self.failed_rows)
        for row in (*ordered[~waits].tolist(), *ordered[waits].tolist()):
            if row not in self._homes and row not in self._adrift:
                self._follow(row)
        return self._homes

    def _prev_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row before each in the first sequence that claims it; NO_ROW where nobody does."""
        first = self.first_claims[rows]
        return np.where(first < 0, NO_ROW, self.claims.prev_rows[np.maximum(first, 0)])

    def _follow(self, row: int) -> None:
        if row in self._broken and self._is_sound_behind(row):
            return
        home = self._home_of(row)
        if home != NO_ROW:
            self._set_home(row, home)
        if home != row:
            self._carry(row)

    def _is_sound_behind(self, row: int) -> bool:
        """Whether a broken chain is the doing of the bad row before."""
        claim = int(self.first_claims[row])
        prev_row = int(self.claims.prev_rows[claim])
        if prev_row in self._homes:
            return bool(self.claims.tokens[claim] != NO_EXPECTED_TOKEN)
        return prev_row in self._failed or prev_row in self._adrift

    def _set_home(self, row: int, home: int) -> None:
        self._homes[row] = home
        self._holders[home] = row

    def _home_of(self, row: int) -> int:
        """A slot that lacks what a row holds, before one that has it as well."""
        copy = self._copies.get(row, NO_ROW)
        if row in self._doubted:
            return copy
        own = self._own_place(row)
        if own == row:
            return row
        if int(self.records[row, RECORD_PREV_HASH]) == CHAIN_ANCHOR:
            places = [own, self._walk.head_for(row, rank=self._has_its_own)]
        else:
            prev_rows = self._chained_to[row]
            places = [own, *(self._walk.behind(self._homes.get(q, q), row) for q in prev_rows)]
            places.append(self._walk.cut_off_for(row, rank=self._has_its_own))
        places = sorted((place for place in places if place != NO_ROW), key=self._has_its_own)
        if not places or places[0] not in self._failed:
            places.insert(0, self._behind_a_lost_record(row))
        return next((place for place in (*places, copy) if place != NO_ROW), NO_ROW)

    def _has_its_own(self, row: int) -> int:
        """How likely a row holds what it should: 0 not, 1 unless its chain is broken, 2 surely."""
        return 2 if row not in self._failed else int(row in self._broken)

    def _own_place(self, row: int) -> int:
        """Where its own sequence has what a row stores, if that is chained so."""
        place = self._walk.place_for(row)
        if place < 0:
            return NO_ROW
        before = int(self.claims.prev_rows[place])
        holder = self._holders.get(before, before)
        if holder < 0 or self.slot_hashes[holder] != self.records[row, RECORD_PREV_HASH]:
            return NO_ROW
        return int(self.claims.rows[place])

    @cached_property
    def _failed(self) -> set[int]:
        return set(self.failed_rows.tolist())

    @cached_property
    def _broken(self) -> set[int]:
        return set(self.broken_rows.tolist())

    @cached_property
    def _doubted(self) -> set[int]:
        return set(self.doubted_rows.tolist())

    @cached_property
    def _copies(self) -> dict[int, int]:
        """For each suspect an unsuspected row with an equal record, a claimed one if there is any."""
        sound = self.hashed_rows[~np.isin(self.hashed_rows, self.suspects)]
        claimed = self.first_claims[sound] >= 0
        sound = np.concatenate((sound[claimed], sound[~claimed]))
        places = ValueIndex(self.slot_hashes[sound]).first(self.slot_hashes[self.suspects])
        copied = places >= 0
        return dict(
            zip(self.suspects[copied].tolist(), sound[places[copied]].tolist(), strict=True)
        )

    @cached_property
    def _chained_to(self) -> dict[int, list[int]]:
        """For each suspect the rows whose slot hash it stores."""
        index = ValueIndex(self.slot_hashes[self.hashed_rows])
        found = index.places(self.records[self.suspects, RECORD_PREV_HASH])
        rows = [self.hashed_rows[places].tolist() for places in found]
        return dict(zip(self.suspects.tolist(), rows, strict=True))

    def _behind_a_lost_record(self, row: int) -> int:
        """The next slot of the same sequence, where one record between was written over.

        The record that this one stores the hash of is nowhere; if it followed the predecessor that
        the expectation names, the mixer gives its token.
        """
        claim = int(self.first_claims[row])
        following = self._walk.next_claim(claim) if claim >= 0 else -1
        prev_row = int(self.claims.prev_rows[claim])
        if following < 0 or prev_row == UNREACHABLE_ROW or not self._walk.fits(following, row):
            return NO_ROW
        before = np.array([CHAIN_ANCHOR], dtype=np.uint64)
        if prev_row != NO_ROW:
            before = self.slot_hashes[prev_row : prev_row + 1]
        position = self.claims.positions[claim : claim + 1].view(np.uint64)
        hashes = unmixed(self.records[row : row + 1, RECORD_PREV_HASH]) ^ position
        token = int((unmixed(hashes) ^ mixed(before))[0])
        if token >= MAX_TOKEN or self.claims.tokens[claim] not in (NO_EXPECTED_TOKEN, token):
            return NO_ROW
        return int(self.claims.rows[following])

    def _carry(self, row: int) -> None:
        """Follow what is chained to a misplaced record through the sequence that claims it."""
        claim = int(self.first_claims[row])
        root, home = row, self._homes.get(row, NO_ROW)
        while claim >= 0:
            claim = self._walk.next_claim(claim)
            next_row = int(self.claims.rows[claim]) if claim >= 0 else NO_ROW
            if next_row == NO_ROW or next_row in self._homes:
                return
            if self.records[next_row, RECORD_PREV_HASH] != self.slot_hashes[row]:
                return
            home = NO_ROW if home == NO_ROW else self._walk.behind(home, next_row)
            if home == next_row:
                return
            if home == NO_ROW:
                home = self._walk.cut_off_for(next_row, rank=self._has_its_own)
            if home == NO_ROW:
                self._adrift[next_row] = root
            else:
                self._set_home(next_row, home)
            row = next_row
