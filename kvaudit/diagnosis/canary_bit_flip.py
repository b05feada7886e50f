"""KV208 canary-bit-flip: a few bits of one word of a record turned over after it was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_REAL_KV_HASH,
    RECORD_TOKEN,
    FailReason,
)
from kvaudit.core.severity import Severity
from kvaudit.core.violation import hash_label
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.rule import Rule, at, counted
from kvaudit.kernels.hash.arrays import bits_set, mixed, unlinked, unmixed

RULE = Rule(id="KV208", name="canary-bit-flip", severity=Severity.ERROR)

# Two hashes that have nothing to do with each other are as near as this once in 10^14. Tokens and
# positions are small numbers: another one is easily two bits away.
_MAX_FLIPPED_BITS: Final = {
    RECORD_TOKEN: 1,
    RECORD_POSITION: 1,
    RECORD_PREV_HASH: 3,
    RECORD_REAL_KV_HASH: 3,
}

# Each word: its name, and what its own row fails by.
_WORDS: Final = {
    RECORD_TOKEN: ("token", FailReason.VERIFY_TOKEN_MISMATCH),
    RECORD_POSITION: ("position", FailReason.VERIFY_POSITION_MISMATCH),
    RECORD_PREV_HASH: ("prev_hash", FailReason.VERIFY_CHAIN_HASH_MISMATCH),
    RECORD_REAL_KV_HASH: ("real_kv_hash", FailReason.VERIFY_REAL_KV_HASH_MISMATCH),
}
_HASHES: Final = (RECORD_PREV_HASH, RECORD_REAL_KV_HASH)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Solved:
    """Words as they were written.

    Fields:
        word: which word of the record.
        failed: the failed rows that show it, shape [n], int64.
        rows: the rows that hold the word, shape [n], int64.
        originals: what was written, shape [n], uint64.
    """

    word: int
    failed: NDArray[np.int64]
    rows: NDArray[np.int64]
    originals: NDArray[np.uint64]


def explain(failures: Failures) -> list[Explanation]:
    """Solve for the word that was written, and see how far from it the stored one is.

    A record's successor stores its slot hash, and the mixer is a bijection: with two words of the
    record given, the hash gives the third. No other word is a few bits away by chance.
    """
    return [found for view in failures.views for found in _in_launch(view)]


def _in_launch(view: RecordView) -> list[Explanation]:
    explanations: dict[tuple[int, int], Explanation] = {}
    for solved in (*_expected_words(view), *_words_of_predecessors(view)):
        stored = view.records[solved.rows, solved.word]
        flipped = stored ^ solved.originals
        counts = bits_set(flipped)
        for number in np.flatnonzero(
            (counts > 0) & (counts <= _MAX_FLIPPED_BITS[solved.word])
        ).tolist():
            row = int(solved.rows[number])
            if (row, solved.word) not in explanations:
                explanations[row, solved.word] = _explanation(
                    view, solved, number, flipped=int(flipped[number])
                )
    return list(explanations.values())


def _expected_words(view: RecordView) -> list[_Solved]:
    """The hashes that a failed row's own expectation gives."""
    found = []
    for word, expected in (
        (RECORD_PREV_HASH, view.rows.expected_chain_hashes),
        (RECORD_REAL_KV_HASH, view.rows.expected_real_kv_hashes),
    ):
        failed = view.with_open(_WORDS[word][1])
        found.append(
            _Solved(
                word=word,
                failed=failed,
                rows=view.rows.rows[failed],
                originals=expected[failed],
            )
        )
    return found


def _words_of_predecessors(view: RecordView) -> list[_Solved]:
    """What each word of a predecessor must have been, for the hash that its successor stores."""
    failed = view.with_open(FailReason.VERIFY_CHAIN_HASH_MISMATCH)
    rows = view.rows.prev_rows[failed]
    failed, rows = failed[rows >= 0], rows[rows >= 0]
    hashes = view.rows.records[failed, RECORD_PREV_HASH]
    tokens, positions, prev_hashes = (
        view.tokens[rows],
        view.positions[rows],
        view.prev_hashes[rows],
    )
    originals = {
        RECORD_TOKEN: unmixed(unmixed(hashes) ^ positions) ^ mixed(prev_hashes),
        RECORD_POSITION: unmixed(hashes) ^ mixed(mixed(prev_hashes) ^ tokens),
        RECORD_PREV_HASH: unlinked(hashes, tokens=tokens, positions=positions),
    }
    return [
        _Solved(word=word, failed=failed, rows=rows, originals=values)
        for word, values in originals.items()
    ]


def _explanation(view: RecordView, solved: _Solved, number: int, *, flipped: int) -> Explanation:
    row, original = solved.rows[number : number + 1], int(solved.originals[number])
    name, reason = _WORDS[solved.word]
    slot = int(view.evidence.snapshot.slots[row[0]])
    stored = original ^ flipped
    bits = [bit for bit in range(flipped.bit_length()) if flipped >> bit & 1]
    is_hash = solved.word in _HASHES
    was, now = (hash_label(original), hash_label(stored)) if is_hash else (original, stored)
    which = ", ".join(map(str, bits))
    summary = (
        f"{counted(len(bits), 'bit')} of the {name} in the record of {at(slot, view.evidence)} "
        f"turned over (bit {which}): {was} was written, {now} is stored"
    )
    return Explanation(
        rule=RULE,
        cause=(int(row[0]), solved.word, flipped),
        summary=summary,
        roots=row,
        failed=view.on_rows(row),
        reasons=reason,
        facts={"word": name, "bits": bits, "stored": now, "written": was},
    )
