"""KV304 kv-bit-flip: a few bits of one word of a slot's KV turned over after it was stamped."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_rows import ByteRows, byte_rows, solved_words
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.rule import Rule, at, counted
from kvaudit.kernels.hash.arrays import bits_set, unmixed

RULE = Rule(id="KV304", name="kv-bit-flip", severity=Severity.ERROR)

# A word that is solved for wrongly is as near as this to the stored one once in 10^14.
_MAX_FLIPPED_BITS: Final = 3


def explain(failures: Failures) -> list[Explanation]:
    """Solve for each word that was hashed, and see how far from it the stored one is.

    The mixer is a bijection: with all other words given, the hash gives the one that is left. No
    other word is a few bits away by chance. Two digests give the last word without any bytes.
    """
    view = failures.byte_view
    return [found for part in byte_rows(view) for found in _in_column(view, part)]


def _in_column(view: ByteView, part: ByteRows) -> list[Explanation]:
    flipped = _differences(part)
    counts = bits_set(flipped.ravel()).reshape(flipped.shape)
    hits = np.argwhere((counts > 0) & (counts <= _MAX_FLIPPED_BITS))
    _, firsts = np.unique(hits[:, 0], return_index=True)
    return [
        _explanation(view, part, member, word=word, flipped=int(flipped[member, word]))
        for member, word in hits[firsts].tolist()
    ]


def _differences(part: ByteRows) -> NDArray[np.uint64]:
    """What each word is away from the solved one, shape [n, words]; of digests the last alone."""
    words = part.words
    if words is not None:
        return words ^ solved_words(words, part.written)
    return (unmixed(part.held) ^ unmixed(part.written))[:, None]


def _explanation(
    view: ByteView, part: ByteRows, member: int, *, word: int, flipped: int
) -> Explanation:
    row = part.rows[member : member + 1]
    bits = [bit for bit in range(flipped.bit_length()) if flipped >> bit & 1]
    facts: dict[str, Any] = {"column": part.column, "bits": bits}
    where = "its last word"
    if part.data is not None:
        facts["byte"] = word * 8 + bits[0] // 8
        where = f"byte {facts['byte']}"
    slot = int(view.evidence.snapshot.slots[row[0]])
    summary = (
        f"{counted(len(bits), 'bit')} of {part.column} at {at(slot, view.evidence)} turned over, "
        f"in {where} (bit {', '.join(map(str, bits))} of the word)"
    )
    explanation = Explanation(
        rule=RULE, cause=(int(row[0]), part.column), summary=summary, roots=row, facts=facts
    )
    return view.claiming(explanation, columns=[part.column])
