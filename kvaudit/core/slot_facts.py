"""What one slot holds: records, digests, the slots that hold the same, and words that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvaudit.constants import WORD_BYTES
from kvaudit.core.slot_readers import SlotReader
from kvaudit.core.violation import hash_label


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRecord:
    """One record of a slot. Hashes are unsigned 64-bit.

    Fields:
        buffer: the record column, such as `k.tail`.
        token: stored token.
        position: stored position.
        prev_hash: stored chain hash.
        real_kv_hash: stored combined hash.
        slot_hash: what its successor stores.
        expected_real_kv_hash: combined hash of what the columns hold now; None where nothing is
            expected, or a column is not in the file.
    """

    buffer: str
    token: int
    position: int
    prev_hash: int
    real_kv_hash: int
    slot_hash: int
    expected_real_kv_hash: int | None = None

    @property
    def is_zero(self) -> bool:
        """Whether there is no record."""
        return not (self.token or self.position or self.prev_hash or self.real_kv_hash)

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "record": self.buffer,
            "token": self.token,
            "position": self.position,
            "prev_hash": hash_label(self.prev_hash),
            "real_kv_hash": hash_label(self.real_kv_hash),
            "expected_real_kv_hash": hash_label(self.expected_real_kv_hash),
            "slot_hash": hash_label(self.slot_hash),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDigests:
    """The hashes of one KV column of a slot, then and now. They are unsigned 64-bit.

    Fields:
        name: the column.
        dtype: element type as the dumper named it, "" when unknown.
        stamped: hash when it was stamped; None where the column has no stamp.
        dumped: hash that the dump has of it; None where it has none.
        recomputed: hash of the bytes that the dump has of it; None where it has none.
        solved: hash that it had when it was stamped, solved from the combined hash as if all other
            columns were right; None where it has a stamp, or the combined hash is right or absent.
        solved_bytes: leading bytes that the solved hash covers; None = all that are hashed.
        pattern: what its bytes look like, such as `zero from byte 128 on`; "" if like nothing.
    """

    name: str
    dtype: str = ""
    stamped: int | None = None
    dumped: int | None = None
    recomputed: int | None = None
    solved: int | None = None
    solved_bytes: int | None = None
    pattern: str = ""

    @property
    def held(self) -> int | None:
        """Hash of what it holds now; None in a file that has neither bytes nor digests of it."""
        return self.dumped if self.recomputed is None else self.recomputed

    @property
    def written(self) -> int | None:
        """Hash of all that was written, as stamped or solved; None where neither is known."""
        if self.stamped is not None:
            return self.stamped
        return self.solved if self.solved_bytes is None else None

    @property
    def differs(self) -> bool | None:
        """Whether it changed since it was stamped; None where nothing tells."""
        if self.stamped is None or self.held is None:
            return None
        return self.stamped != self.held

    def to_dict(self) -> dict[str, Any]:
        """The column as JSON values."""
        return {
            "column": self.name,
            "dtype": self.dtype,
            "stamped": hash_label(self.stamped),
            "dumped": hash_label(self.dumped),
            "recomputed": hash_label(self.recomputed),
            "solved": hash_label(self.solved),
            "solved_bytes": self.solved_bytes,
            "differs": self.differs,
            "pattern": self.pattern,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentCopy:
    """A slot that shares content with another one, which is `this` below.

    Fields:
        slot: the slot; the first of its page where digests are of pages.
        readers: who reads it, at most a few.
        same_records: record columns whose token, position and chain hash are the same.
        same_columns: KV columns that hold the same.
        stamped_columns: KV columns that were stamped there with what this slot holds.
        written_columns: KV columns that hold there what was stamped in this slot, which does not.
    """

    slot: int
    readers: Sequence[SlotReader] = ()
    same_records: Sequence[str] = ()
    same_columns: Sequence[str] = ()
    stamped_columns: Sequence[str] = ()
    written_columns: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """The slot as JSON values."""
        return {
            "slot": self.slot,
            "readers": [reader.to_dict() for reader in self.readers],
            "same_records": list(self.same_records),
            "same_columns": list(self.same_columns),
            "stamped_columns": list(self.stamped_columns),
            "written_columns": list(self.written_columns),
        }


def _bytes_label(word: int) -> str:
    """A word's bytes in the order of memory, in hexadecimal."""
    return word.to_bytes(WORD_BYTES, "little").hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class WordDifference:
    """Eight bytes of a KV column that differ, as a little-endian word.

    Fields:
        byte: where they begin.
        holds: the word now.
        other: the word that it is compared with; None without any.
    """

    byte: int
    holds: int
    other: int | None

    @property
    def bits(self) -> int | None:
        """How many bits differ; None without a word to compare with."""
        return None if self.other is None else (self.holds ^ self.other).bit_count()

    def to_dict(self) -> dict[str, Any]:
        """The word as JSON values."""
        return {
            "byte": self.byte,
            "holds": _bytes_label(self.holds),
            "other": None if self.other is None else _bytes_label(self.other),
            "bits": self.bits,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteComparison:
    """The words of one column that differs from what was written.

    Fields:
        column: the column.
        other_slot: the slot whose bytes it is compared with, as they are what was stamped; None
            where the stamp alone is there.
        says: what the words are compared with, and how far that goes; one sentence.
        num_words: words of the column that are hashed; None where the dump has no bytes.
        num_differing: how many differ; None where that is not known.
        words: the first that differ, or where nothing is known of them, the first of all.
    """

    column: str
    other_slot: int | None
    says: str
    num_words: int | None = None
    num_differing: int | None = None
    words: Sequence[WordDifference] = ()

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return {
            "column": self.column,
            "other_slot": self.other_slot,
            "says": self.says,
            "num_words": self.num_words,
            "num_differing": self.num_differing,
            "words": [word.to_dict() for word in self.words],
        }
