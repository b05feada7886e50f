"""Which claims a record could be the content of, and which slots come before and behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_EXPECTED_TOKEN, RECORD_POSITION, RECORD_TOKEN
from kvaudit.core.claims import NO_ROW, UNREACHABLE_ROW, Claims
from kvaudit.core.value_index import ValueIndex

# What a look-up gives where there is no such claim.
NO_CLAIM = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class ClaimWalk:
    """Goes from rows to the claims on them, and on through their sequences.

    Fields:
        claims: what the expectations say.
        records: the records that are compared, shape [num_rows, 4], uint64.
    """

    claims: Claims
    records: NDArray[np.uint64]

    @cached_property
    def first_claims(self) -> NDArray[np.int64]:
        """The first claim on each row, shape [num_rows], int64; NO_CLAIM where nobody claims it."""
        first = np.full(len(self.records), NO_CLAIM, dtype=np.int64)
        claimed = np.flatnonzero(self.claims.rows >= 0)[::-1]
        first[self.claims.rows[claimed]] = claimed
        return first

    @cached_property
    def _heads(self) -> NDArray[np.int64]:
        return np.flatnonzero((self.claims.prev_rows == NO_ROW) & (self.claims.rows >= 0))

    @cached_property
    def _cut_off(self) -> NDArray[np.int64]:
        """Where a sequence begins with what is left of it, whose predecessor it let go of."""
        unreachable = self.claims.prev_rows == UNREACHABLE_ROW
        return np.flatnonzero(unreachable & (self.claims.rows >= 0))

    @cached_property
    def _cut_off_at(self) -> ValueIndex:
        return ValueIndex(self.claims.positions[self._cut_off].view(np.uint64))

    def fits(self, claim: int, row: int) -> bool:
        """Whether a row's record has the position of a claim, and its token if that is known."""
        token = int(self.claims.tokens[claim])
        record = self.records[row].view(np.int64)
        same_token = token in (NO_EXPECTED_TOKEN, int(record[RECORD_TOKEN]))
        return same_token and int(self.claims.positions[claim]) == int(record[RECORD_POSITION])

    def next_claim(self, claim: int) -> int:
        """The claim that follows one in its sequence; NO_CLAIM at the end."""
        numbers = self.claims.sequence_numbers
        last = claim + 1 == len(self.claims) or numbers[claim + 1] != numbers[claim]
        return NO_CLAIM if last else claim + 1

    def place_for(self, row: int) -> int:
        """The claim of a row's own sequence that its record fits; NO_CLAIM if it fits none."""
        claim = int(self.first_claims[row])
        if claim == NO_CLAIM:
            return NO_CLAIM
        stored = int(self.records[row].view(np.int64)[RECORD_POSITION])
        place = claim + stored - int(self.claims.positions[claim])
        numbers = self.claims.sequence_numbers
        inside = 0 <= place < len(self.claims) and numbers[place] == numbers[claim]
        return place if inside and self.fits(place, row) else NO_CLAIM

    def behind(self, prev_row: int, row: int) -> int:
        """The row that a sequence has behind prev_row for what a row holds; NO_ROW without any."""
        first = int(self.first_claims[prev_row])
        claim = NO_CLAIM if first == NO_CLAIM else self.next_claim(first)
        if claim != NO_CLAIM and self.fits(claim, row):
            return int(self.claims.rows[claim])
        for other in self.claims.after_rows(np.array([prev_row])).tolist():
            if self.fits(other, row):
                return int(self.claims.rows[other])
        return NO_ROW

    def cut_off_for(self, row: int, *, rank: Callable[[int], int]) -> int:
        """The row where what is left of a sequence begins with what a row holds; NO_ROW without any.

        Args:
            row: a row whose record is no chain's head.
            rank: as in `head_for`; only a row that has not its own content (0) can have lost this.
        """
        places = self._cut_off_at.where(self.records[row : row + 1, RECORD_POSITION])
        for claim in self._cut_off[places].tolist():
            if self.fits(claim, row) and not rank(int(self.claims.rows[claim])):
                return int(self.claims.rows[claim])
        return NO_ROW

    def head_for(self, row: int, *, rank: Callable[[int], int]) -> int:
        """The row where a sequence begins with what a row holds; NO_ROW without any.

        Args:
            row: a row whose record is a chain's head.
            rank: how likely a row has its own content. Where no token tells, only a head that has
                not (0) can have lost this; of several the lowest comes first, then its own sequence.
        """
        claims = self.claims
        own = self.first_claims[row]
        number = NO_CLAIM if own == NO_CLAIM else int(claims.sequence_numbers[own])
        ranked = []
        for head in self._heads.tolist():
            if self.fits(head, row):
                at_home = rank(int(claims.rows[head]))
                if claims.tokens[head] != NO_EXPECTED_TOKEN or not at_home:
                    ranked.append((at_home, int(claims.sequence_numbers[head]) != number, head))
        return int(claims.rows[min(ranked)[2]]) if ranked else NO_ROW
