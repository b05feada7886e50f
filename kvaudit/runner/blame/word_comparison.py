"""The words of a column that differ from what was written, as far as that can be known.

A slot elsewhere whose bytes are those that were stamped is what they should be. Without one, the
stamp gives what any single word must have been if all others are right, and no more than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import WORD_BYTES
from kvaudit.core.layout import slot_label
from kvaudit.core.slot_facts import ByteComparison, ColumnDigests, ContentCopy, WordDifference
from kvaudit.core.snapshot import DigestGrain, Snapshot
from kvaudit.diagnosis.byte_rows import solved_words, words_of
from kvaudit.kernels.hash.arrays import bits_set, unmixed

# Columns that are compared, and words of each that are listed.
MAX_COLUMNS: Final = 8
MAX_WORDS: Final = 8
# A word that is solved for wrongly is as near as this to the stored one once in 10^14.
_MAX_FLIPPED_BITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordComparison:
    """The comparison of one row's columns.

    Fields:
        snapshot: the pool.
        row: the row.
        copies: the slots that share content with it.
    """

    snapshot: Snapshot
    row: int
    copies: Sequence[ContentCopy]

    def compare(self, columns: Sequence[ColumnDigests]) -> list[ByteComparison]:
        """The first of the columns that are not what was written.

        Of the columns of a combined hash most are right: one is told of where its words explain it.
        """
        found = [self._compared(column) for column in columns]
        known = {column.name for column in columns if column.stamped is not None}
        return [
            compared
            for compared in found
            if compared is not None and (compared.column in known or compared.num_differing)
        ][:MAX_COLUMNS]

    def _compared(self, column: ColumnDigests) -> ByteComparison | None:
        """None where the column is what was written, or nothing tells."""
        words, held, written = self._words(column.name, self.row), column.held, column.written
        if words is not None and column.solved is not None and column.solved_bytes is not None:
            leading = words[: -(-column.solved_bytes // WORD_BYTES)]
            return _with_stamp(column.name, leading, written=column.solved)
        if held is None or written is None or held == written:
            return None
        if words is None:
            return self._of_digests(column.name, held=held, written=written)
        return self._with_copy(column.name, words) or _with_stamp(
            column.name, words, written=written
        )

    @property
    def _sources(self) -> Mapping[str, int]:
        """A slot that holds what was written in each column, where there is one."""
        return {name: copy.slot for copy in reversed(self.copies) for name in copy.written_columns}

    def _words(self, name: str, row: int) -> NDArray[np.uint64] | None:
        """The words that are hashed, shape [num_words], uint64; None without bytes."""
        column = self.snapshot.kv.get(name)
        if column is None:
            return None
        words: NDArray[np.uint64] = words_of(column.read_rows(row, row + 1)[:, : column.read_bytes])
        return words.ravel()

    def _with_copy(self, name: str, words: NDArray[np.uint64]) -> ByteComparison | None:
        """Word by word with a slot that holds what was stamped; None where there is none."""
        slot = self._sources.get(name)
        if slot is None:
            return None
        row = int(self.snapshot.rows_of(np.array([slot], dtype=np.int64))[0])
        other = self._words(name, row)
        if other is None:
            return None
        at = np.flatnonzero(words != other)
        return ByteComparison(
            column=name,
            other_slot=slot,
            says=f"beside {self._label(slot)}, which holds what was stamped here",
            num_words=len(words),
            num_differing=len(at),
            words=_differences(words, other, at),
        )

    def _of_digests(self, name: str, *, held: int, written: int) -> ByteComparison | None:
        """What two digests tell without any bytes: the last word, if it alone changed; mostly None."""
        last, was = unmixed(np.array([held, written], dtype=np.uint64)).tolist()
        flipped = (last ^ was).bit_count()
        if self.snapshot.digest_grain is not DigestGrain.SLOT or flipped > _MAX_FLIPPED_BITS:
            return None
        bits = "1 bit" if flipped == 1 else f"{flipped} bits"
        says = f"by the digest, {bits} of the last word turned over, if all other words are right"
        return ByteComparison(column=name, other_slot=None, says=says)

    def _label(self, slot: int) -> str:
        return slot_label(slot, self.snapshot.page_size)


def _with_stamp(name: str, words: NDArray[np.uint64], *, written: int) -> ByteComparison:
    """What the stamp allows: the one word that is a few bits away, if there is one."""
    solved = solved_words(words[None], np.array([written], dtype=np.uint64))[0]
    bits = bits_set(words ^ solved)
    at = np.flatnonzero(bits <= _MAX_FLIPPED_BITS)[:1]
    if at.size:
        return ByteComparison(
            column=name,
            other_slot=None,
            says="by the stamp, if all other words are right",
            num_words=len(words),
            num_differing=1,
            words=_differences(words, solved, at),
        )
    return ByteComparison(
        column=name,
        other_slot=None,
        says="what it should hold is not known: no slot that was searched holds what was stamped "
        "here, and no flipped bits of one word explain it",
        num_words=len(words),
        words=_differences(words, None, np.arange(len(words))),
    )


def _differences(
    words: NDArray[np.uint64], others: NDArray[np.uint64] | None, at: NDArray[np.int64]
) -> list[WordDifference]:
    """The first of the words at some places, shape [n], int64, beside the others."""
    return [
        WordDifference(
            byte=place * WORD_BYTES,
            holds=int(words[place]),
            other=None if others is None else int(others[place]),
        )
        for place in at[:MAX_WORDS].tolist()
    ]
