"""Which token each row of a pool should hold, a row at a time: one slot is one vote."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.planner import SequenceEntries
from kvaudit.core.sequences import SequenceState

_REGION: Final = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenRows:
    """Rows that somebody claims with a known token, ascending.

    A finished sequence's claim counts only where no other is.

    Fields:
        rows: row of the snapshot, shape [n], int64.
        claims: its first claim, number among `PoolEvidence.claims`, shape [n], int64.
        tokens: the token, shape [n], int64.
        positions: the position, as the model counts, shape [n], int64; -1 where claims differ.
        keys: number of the sequence's extra key, shape [n], int64; 0 = none.
        histories: a digest of all tokens up to it, shape [n], uint64; different for each row where
            they are not known.
        sequences: number of its claim's sequence, shape [n], int64.
        regions: number of the stretch of that sequence that it is in, shape [n], int64: a page, or
            _REGION positions where pages are shorter.
        is_disputed: whether claims want different tokens, shape [n], bool.
    """

    rows: NDArray[np.int64]
    claims: NDArray[np.int64]
    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    keys: NDArray[np.int64]
    histories: NDArray[np.uint64]
    sequences: NDArray[np.int64]
    regions: NDArray[np.int64]
    is_disputed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> TokenRows:
        """Some of the rows, by shape [n], bool, or by their numbers, int64."""
        return TokenRows(**{part.name: getattr(self, part.name)[keep] for part in fields(self)})


def token_rows(evidence: PoolEvidence) -> TokenRows:
    """Collect them from all claims, whatever the scope."""
    claims = evidence.claims
    known = (claims.rows >= 0) & (claims.tokens >= 0)
    known &= evidence.names_slot(claims.slots)
    chosen = np.flatnonzero(known)
    origin = _Origin(evidence=evidence, claims=chosen)
    # Of the claims on a row, the live ones first, each in claim order.
    order = np.lexsort((origin.is_finished, claims.rows[chosen]))
    rows = claims.rows[chosen[order]]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    owner = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    finished = origin.is_finished[order]
    counts = finished == finished[starts][owner]
    tokens, keys = claims.tokens[chosen[order]], origin.keys[order]
    positions = claims.positions[chosen[order]] - evidence.snapshot.position_offset
    other_token = counts & ((tokens != tokens[starts][owner]) | (keys != keys[starts][owner]))
    other_position = counts & (positions != positions[starts][owner])
    is_moved = np.bincount(owner[other_position], minlength=len(starts)) > 0
    firsts = order[starts]
    return TokenRows(
        rows=rows[starts],
        claims=chosen[firsts],
        tokens=tokens[starts],
        positions=np.where(is_moved, -1, positions[starts]),
        keys=keys[starts],
        histories=origin.histories[firsts],
        sequences=claims.sequence_numbers[chosen[firsts]],
        regions=_regions(evidence, chosen[firsts]),
        is_disputed=np.bincount(owner[other_token], minlength=len(starts)) > 0,
    )


def _regions(evidence: PoolEvidence, claims: NDArray[np.int64]) -> NDArray[np.int64]:
    """The stretch of its sequence that each claim, shape [n], int64, is in; shape [n], int64."""
    every = evidence.claims
    length = max(_REGION, evidence.snapshot.page_size)
    stretches = np.maximum(every.positions[claims], 0) // length
    first = every.sequence_numbers[claims] * (int(stretches.max(initial=0)) + 1)
    regions: NDArray[np.int64] = first + stretches
    return regions


@dataclass(frozen=True, kw_only=True, eq=False)
class _Origin:
    """What the sequences say of some claims, shape [n], int64."""

    evidence: PoolEvidence
    claims: NDArray[np.int64]

    @cached_property
    def _of_sequences(self) -> tuple[NDArray[np.int64], SequenceEntries] | None:
        """Which of the claims are the sequences', and their entries."""
        for number, source in enumerate(self.evidence.sources):
            if isinstance(source, SequenceEntries):
                is_own = self.evidence.claims.source_indices[self.claims] == number
                return np.flatnonzero(is_own), source
        return None

    @cached_property
    def _owners(self) -> NDArray[np.int64]:
        """The sequence of each of the sequences' claims."""
        if self._of_sequences is None:
            return np.empty(0, dtype=np.int64)
        members, source = self._of_sequences
        return source.held.owners_of(self.evidence.claims.entry_indices[self.claims[members]])

    @cached_property
    def is_finished(self) -> NDArray[np.bool_]:
        """Whether the sequence is finished, shape [n], bool."""
        finished = np.zeros(len(self.claims), dtype=np.bool_)
        if self._of_sequences is not None:
            members, source = self._of_sequences
            states = source.sequences.states
            of_sequence = np.array([state is SequenceState.FINISHED for state in states])
            finished[members] = of_sequence[self._owners]
        return finished

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """Number of the sequence's extra key, shape [n], int64; 0 = none."""
        keys = np.zeros(len(self.claims), dtype=np.int64)
        if self._of_sequences is not None:
            members, source = self._of_sequences
            numbers: dict[str | None, int] = {None: 0, "": 0}
            of_sequence = np.array(
                [numbers.setdefault(key, len(numbers)) for key in source.sequences.extra_keys],
                dtype=np.int64,
            )
            keys[members] = of_sequence[self._owners]
        return keys

    @cached_property
    def histories(self) -> NDArray[np.uint64]:
        """A digest of the tokens up to each claim, shape [n], uint64."""
        histories = self.claims.astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
        if self._of_sequences is not None:
            members, source = self._of_sequences
            entries = self.evidence.claims.entry_indices[self.claims[members]]
            digests, are_known = source.held.histories_of(entries)
            histories[members[are_known]] = digests[are_known]
        return histories
