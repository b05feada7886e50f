"""Where the tokens that wrong rows hold follow one another in the same way: whose content it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.claims import Claims
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.identity import IdentityEvidence, WrongContent
from kvaudit.core.value_index import ValueIndex
from kvaudit.diagnosis.byte_view import MAX_CAUSES

# No claim is of the token that a row holds, or none that its neighbours confirm.
NO_HOME: Final = -1
# Tokens of a run that name places to look at: the rarest, each at most so often.
_MAX_SEEDS: Final = 8
_MAX_PLACES: Final = 2048
_MAX_TRIED: Final = 32
_MAX_PARTS: Final = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldHomes:
    """The wrong rows of a pool in runs, and the claims that their content fits.

    Fields:
        evidence: the pool.
        identity: what its layer-0 rows say.
    """

    evidence: PoolEvidence
    identity: IdentityEvidence

    @property
    def wrong(self) -> WrongContent:
        """The wrong rows; members below are numbers among them."""
        return self.identity.content

    @property
    def claims(self) -> Claims:
        """What the expectations claim."""
        return self.evidence.claims

    @cached_property
    def runs(self) -> list[NDArray[np.int64]]:
        """Members that follow one another in a sequence, shape [k] each, int64, in its order.

        Rows that were not judged may lie between, as many as a page has; rows that hold what they
        should may not. What is behind the first MAX_CAUSES runs is one.
        """
        claims, wrong = self.claims, self.wrong
        if not len(wrong):
            return []
        order = np.argsort(wrong.claims, kind="stable")
        here = wrong.claims[order]
        sound = self.identity.sound
        held = claims.rows >= 0
        # How many claims up to each are on sound rows.
        is_sound = held & sound[np.where(held, claims.rows, 0)] if sound.size else held
        sounds = np.cumsum(is_sound)
        follows = claims.sequence_numbers[here[1:]] == claims.sequence_numbers[here[:-1]]
        follows &= here[1:] - here[:-1] <= self.evidence.snapshot.page_size
        follows &= sounds[here[1:]] == sounds[here[:-1]]
        runs = np.split(order, np.flatnonzero(~follows) + 1)
        if len(runs) <= MAX_CAUSES:
            return runs
        return [*runs[:MAX_CAUSES], np.concatenate(runs[MAX_CAUSES:])]

    @cached_property
    def homes(self) -> NDArray[np.int64]:
        """The claim that each member's content fits, shape [n], int64; NO_HOME where none does."""
        homes = np.full(len(self.wrong), NO_HOME, dtype=np.int64)
        for run in self.runs[:MAX_CAUSES]:
            self._find(homes, run)
        self._extend(homes)
        return homes

    def _extend(self, homes: NDArray[np.int64]) -> None:
        """Give rows without a home that of the nearest row before or behind, where it goes on so.

        A row between may hold what it should by chance: a token that both contents have there.
        """
        claims = self.wrong.claims
        order = np.argsort(claims, kind="stable")
        placed = order[homes[order] != NO_HOME]
        lost = order[(homes[order] == NO_HOME) & (self.wrong.tokens[order] >= 0)]
        if not placed.size or not lost.size:
            return
        behind = np.searchsorted(claims[placed], claims[lost])
        for step in (behind - 1, behind):
            near = placed[np.clip(step, 0, len(placed) - 1)]
            gap = np.abs(claims[near] - claims[lost])
            is_near = gap <= self.evidence.snapshot.page_size
            shifts = homes[near] - claims[near]
            for shift in np.unique(shifts[is_near]).tolist():
                members = lost[is_near & (shifts == shift) & (homes[lost] == NO_HOME)]
                fits = self._fits(members, shift)
                homes[members[fits]] = claims[members[fits]] + shift

    @cached_property
    def along(self) -> NDArray[np.int64]:
        """The wrong row that each row of a wrong rotation came along with, shape [k], int64.

        Both contents have the same token there, so that K alone tells: its position is that of the
        text which its neighbours hold. NO_HOME where it is not.
        """
        turned, claims = self.identity.rotation, self.claims
        along = np.full(len(turned), NO_HOME, dtype=np.int64)
        placed = np.flatnonzero(self.homes != NO_HOME)
        placed = placed[np.argsort(self.wrong.claims[placed], kind="stable")]
        if not placed.size:
            return along
        behind = np.searchsorted(self.wrong.claims[placed], turned.claims)
        for step in (behind - 1, behind):
            near = placed[np.clip(step, 0, len(placed) - 1)]
            homes = self.homes[near] + turned.claims - self.wrong.claims[near]
            inside = (homes >= 0) & (homes < len(claims))
            homes = np.where(inside, homes, 0)
            position = claims.positions[homes] - self.evidence.snapshot.position_offset
            gaps = np.abs(self.wrong.claims[near] - turned.claims)
            fits = inside & (gaps <= self.evidence.snapshot.page_size)
            fits &= (turned.positions >= 0) & (position == turned.positions)
            fits &= claims.tokens[homes] == claims.tokens[turned.claims]
            fits &= claims.sequence_numbers[homes] == claims.sequence_numbers[self.homes[near]]
            along[fits & (along == NO_HOME)] = near[fits & (along == NO_HOME)]
        return along

    @cached_property
    def _places(self) -> ValueIndex:
        return ValueIndex(self.claims.tokens)

    def _find(self, homes: NDArray[np.int64], run: NDArray[np.int64]) -> None:
        """Give the members of a run their homes, the longest part of one sequence first."""
        remaining = run[self.wrong.tokens[run] >= 0]
        for _ in range(_MAX_PARTS):
            if not remaining.size:
                return
            delta, fits = self._best_shift(remaining)
            if not fits.any():
                return
            if fits.sum() == 1 and not self._is_sure(remaining[fits][0], run):
                return
            found = remaining[fits]
            homes[found] = self.wrong.claims[found] + delta
            remaining = remaining[~fits]

    def _is_sure(self, member: np.int64, run: NDArray[np.int64]) -> bool:
        """Whether one row tells whose it is: its position fits, or it is alone and so is its token."""
        if self.wrong.positions[member] >= 0:
            return True
        token = self.wrong.tokens[member : member + 1]
        return len(run) == 1 and len(self._places.where(token)) == 1

    def _best_shift(self, members: NDArray[np.int64]) -> tuple[int, NDArray[np.bool_]]:
        """How many claims away the content of most members is, and which members those are."""
        tokens, own = self.wrong.tokens[members], self.wrong.claims[members]
        distinct, firsts = np.unique(tokens, return_index=True)
        places = self._places.places(distinct)
        rarest = np.argsort([len(found) for found in places], kind="stable")[:_MAX_SEEDS]
        shifts = [places[number][:_MAX_PLACES] - own[firsts[number]] for number in rarest.tolist()]
        tried, counts = np.unique(np.concatenate(shifts), return_counts=True)
        tried = tried[np.argsort(-counts, kind="stable")[:_MAX_TRIED]]
        best, best_fits = 0, np.zeros(len(members), dtype=np.bool_)
        own_sequence = self.claims.sequence_numbers[own[0]]
        best_rank = (0, False)
        for shift in tried.tolist():
            fits = self._fits(members, shift)
            if not fits.any():
                continue
            home = own[fits][0] + shift
            rank = (int(fits.sum()), bool(self.claims.sequence_numbers[home] == own_sequence))
            if rank > best_rank:
                best, best_fits, best_rank = shift, fits, rank
        return best, best_fits

    def _fits(self, members: NDArray[np.int64], shift: int) -> NDArray[np.bool_]:
        """Which members hold what the claims so far away want, all of one sequence; [n], bool."""
        claims, wrong = self.claims, self.wrong
        homes = wrong.claims[members] + shift
        inside = (homes >= 0) & (homes < len(claims))
        homes = np.where(inside, homes, 0)
        fits: NDArray[np.bool_] = inside & (claims.tokens[homes] == wrong.tokens[members])
        told = wrong.positions[members]
        offset = self.evidence.snapshot.position_offset
        fits &= (told < 0) | (claims.positions[homes] - offset == told)
        if fits.any():
            numbers, counts = np.unique(claims.sequence_numbers[homes[fits]], return_counts=True)
            fits &= claims.sequence_numbers[homes] == numbers[counts.argmax()]
        return fits
