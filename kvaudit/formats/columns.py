"""The columns of a mapped file behind the ports of `core.kv_column`: no copy, digests checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.constants import WORD_BYTES
from kvaudit.core.kv_column import DigestedBytes, KvWindow
from kvaudit.errors import FileCorrupt
from kvaudit.formats.digests import CHUNK_BYTES, column_digests, new_hasher, value_bytes
from kvaudit.formats.file_bytes import FileBytes

# Half or all of a core's second cache: what was hashed is still there when it is folded.
PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnBatch:
    """One column of one record batch.

    Fields:
        array: the Arrow array, validated.
        digests: digests of its chunks as written; None when the file carries none.
    """

    array: pa.Array
    digests: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileColumn:
    """A RowColumn of a file.

    Fields:
        source: the file's bytes.
        name: the column's name.
        batches: the column in file order.
        convert: one batch's Arrow array, and the number of its first row for messages -> shape
            [rows] or [rows, 4]; refuses words that the column may not hold.
        empty: what a file without batches gives.
    """

    source: FileBytes
    name: str
    batches: Sequence[ColumnBatch]
    convert: Callable[[Any, int], NDArray[Any]]
    empty: NDArray[Any]

    def read(self) -> NDArray[Any]:
        """The values; a file of one batch is not copied.

        Raises:
            FileCorrupt: a chunk's digest differs.
            FileUnreadable: the file shrank.
            ValuesInvalid: a word is not one of the column's.
            LimitExceeded: too much text.
        """
        self.source.ensure_whole()
        parts = []
        first_row = 0
        for batch in self.batches:
            check_column(self.source, self.name, batch)
            parts.append(self.convert(batch.array, first_row))
            first_row += len(batch.array)
        if not parts:
            return self.empty
        if len(parts) == 1:
            return parts[0]
        joined = np.concatenate(parts)
        joined.setflags(write=False)
        return joined


def check_column(source: FileBytes, name: str, batch: ColumnBatch) -> None:
    """Compare all digests of one column of one batch.

    Raises:
        FileCorrupt: one differs.
    """
    if batch.digests is not None and column_digests(batch.array) != list(batch.digests):
        raise corrupt(source, name)


def corrupt(source: FileBytes, name: str | None) -> FileCorrupt:
    """The error for a digest that differs."""
    return FileCorrupt(
        "its digest differs from the one written with it",
        path=source.path,
        column=name,
        hint="the file changed after it was written: copy it again from where it came",
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileKvColumn:
    """A KvColumn of a file.

    Fields:
        source: the file's bytes.
        name: the column's name.
        batches: the column in file order, fixed-size binary.
        num_rows: rows of the file.
        row_bytes: bytes a row holds.
        read_bytes: leading bytes of a row that a digest covers.
        dtype: element type as the dumper named it.
    """

    source: FileBytes
    name: str
    batches: Sequence[ColumnBatch]
    num_rows: int
    row_bytes: int
    read_bytes: int
    dtype: str

    @property
    def is_resident(self) -> bool:
        """The rows of one record batch lie in the map one after another."""
        return len(self.batches) <= 1

    def windows(self) -> Iterator[KvWindow]:
        """All rows in ascending order: those whose first byte lies in one chunk are a window.

        Raises:
            FileUnreadable: the file shrank.
        """
        first_row = 0
        for batch in self.batches:
            content = value_bytes(batch.array)
            pending = dict(enumerate(batch.digests or ()))
            digested = self._digested(content, batch.digests or ())
            for first, last in _window_rows(len(batch.array), self.row_bytes):
                self.source.ensure_whole()
                first_byte, last_byte = first * self.row_bytes, last * self.row_bytes
                yield KvWindow(
                    first_row=first_row + first,
                    data=content[first_byte:last_byte].reshape(-1, self.row_bytes),
                    prove=partial(
                        self._prove, content, pending, first_byte=first_byte, last_byte=last_byte
                    ),
                    digested=digested,
                    first_byte=first_byte,
                )
            first_row += len(batch.array)

    def _digested(self, content: NDArray[np.uint8], digests: Sequence[str]) -> DigestedBytes:
        """One batch's bytes with its digests.

        Raises:
            FileCorrupt: a digest is none.
        """

        def prove_chunk(chunk: int) -> None:
            for _ in self._hash_chunk(content, chunk, digests[chunk]):
                pass

        try:
            words = np.array([_word(digest) for digest in digests], dtype=np.uint64)
        except ValueError as error:
            raise corrupt(self.source, self.name) from error
        return DigestedBytes(
            content=content, chunk_bytes=CHUNK_BYTES, digests=words, prove_chunk=prove_chunk
        )

    def _prove(
        self,
        content: NDArray[np.uint8],
        pending: dict[int, str],
        next_is_walked: bool,
        *,
        first_byte: int,
        last_byte: int,
    ) -> Iterator[int]:
        """`KvWindow.prove` of the bytes [first_byte, last_byte) of one batch.

        `pending` holds the chunks that no window of this walk has claimed. Taking one out is
        atomic, so two threads whose windows share a chunk hash it once between them.
        """
        end = last_byte
        if next_is_walked and last_byte < content.size:
            # The chunk in which the next window begins is that window's own.
            end = last_byte // CHUNK_BYTES * CHUNK_BYTES
        for chunk in range(first_byte // CHUNK_BYTES, -(-end // CHUNK_BYTES)):
            expected = pending.pop(chunk, None)
            if expected is None:
                continue
            try:
                for hashed in self._hash_chunk(content, chunk, expected):
                    yield (hashed - first_byte) // self.row_bytes
            except BaseException:
                pending[chunk] = expected
                raise

    def _hash_chunk(self, content: NDArray[np.uint8], chunk: int, expected: str) -> Iterator[int]:
        """Compare one chunk with its digest; yields where each piece of it ends in `content`."""
        self.source.ensure_whole()
        hasher = new_hasher()
        last_byte = min((chunk + 1) * CHUNK_BYTES, content.size)
        for first in range(chunk * CHUNK_BYTES, last_byte, PIECE_BYTES):
            last = min(first + PIECE_BYTES, last_byte)
            hasher.update(content[first:last].data)
            yield last
        if hasher.hexdigest() != expected:
            raise corrupt(self.source, self.name)

    def read_rows(self, first_row: int, last_row: int) -> NDArray[np.uint8]:
        """The bytes of rows [first_row, last_row), shape [n, row_bytes], uint8, read-only.

        A copy only where the rows cross a batch. No digest is checked.
        """
        self.source.ensure_whole()
        parts = []
        batch_first = 0
        for batch in self.batches:
            first = max(first_row - batch_first, 0)
            last = min(last_row - batch_first, len(batch.array))
            if first < last:
                content = value_bytes(batch.array)[first * self.row_bytes : last * self.row_bytes]
                parts.append(content.reshape(-1, self.row_bytes))
            batch_first += len(batch.array)
        if len(parts) == 1:
            return parts[0]
        joined = np.concatenate([np.empty((0, self.row_bytes), dtype=np.uint8), *parts])
        joined.setflags(write=False)
        return joined


def _word(digest: str) -> int:
    """The number that 16 hex digits write; a ValueError for any other text."""
    content = bytes.fromhex(digest)
    if len(content) != WORD_BYTES or content.hex() != digest:
        raise ValueError(digest)
    return int.from_bytes(content)


def _window_rows(num_rows: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Runs of rows [first, last) whose first bytes lie in one chunk."""
    first = 0
    while first < num_rows:
        chunk = first * row_bytes // CHUNK_BYTES
        last = min(num_rows, -(-(chunk + 1) * CHUNK_BYTES // row_bytes))
        yield first, last
        first = last
