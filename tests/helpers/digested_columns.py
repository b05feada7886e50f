"""KV columns in memory whose chunks carry digests, as those of a file do, but smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import xxhash

from kvaudit.core.kv_column import DigestedBytes, KvWindow
from kvaudit.errors import FileCorrupt

CHUNK_BYTES = 1024


@dataclass(kw_only=True, eq=False)
class DigestedColumn:
    """A KvColumn: the rows whose first byte lies in one chunk are a window.

    Fields:
        data: the KV bytes, shape [num_rows, row_bytes], uint8.
        read_bytes: leading bytes that are folded.
        batch_rows: rows of each batch, whose chunks are its own.
        has_digests: whether the chunks carry digests.
        proven: chunks that were proven on the host, as batch and number.
    """

    data: np.ndarray
    read_bytes: int
    batch_rows: list[int]
    has_digests: bool = True
    name: str = "kv.k.0"
    dtype: str = ""
    is_resident: bool = True
    proven: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert sum(self.batch_rows) == len(self.data)
        self.batches = []
        first = 0
        for number, num_rows in enumerate(self.batch_rows):
            content = self.data[first : first + num_rows].reshape(-1)
            firsts = range(0, content.size if self.has_digests else 0, CHUNK_BYTES)
            digests = [
                xxhash.xxh3_64_intdigest(content[at : at + CHUNK_BYTES].tobytes()) for at in firsts
            ]
            self.batches.append(self._digested(number, content, digests))
            first += num_rows

    def _digested(self, number: int, content: np.ndarray, digests: list[int]) -> DigestedBytes:
        def prove_chunk(chunk: int) -> None:
            self.proven.append((number, chunk))
            part = content[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
            if xxhash.xxh3_64_intdigest(part.tobytes()) != digests[chunk]:
                raise FileCorrupt("the digest differs", column=f"{self.name} {number} {chunk}")

        return DigestedBytes(
            content=content,
            chunk_bytes=CHUNK_BYTES,
            digests=np.array(digests, dtype=np.uint64),
            prove_chunk=prove_chunk,
        )

    @property
    def num_rows(self) -> int:
        return int(self.data.shape[0])

    @property
    def row_bytes(self) -> int:
        return int(self.data.shape[1])

    def windows(self) -> Iterator[KvWindow]:
        first_row = 0
        for num_rows, digested in zip(self.batch_rows, self.batches, strict=True):
            first = 0
            while first < num_rows:
                chunk = first * self.row_bytes // CHUNK_BYTES
                last = min(num_rows, -(-(chunk + 1) * CHUNK_BYTES // self.row_bytes))
                yield KvWindow(
                    first_row=first_row + first,
                    data=self.data[first_row + first : first_row + last],
                    digested=digested,
                    first_byte=first * self.row_bytes,
                )
                first = last
            first_row += num_rows

    def read_rows(self, first_row: int, last_row: int) -> np.ndarray:
        return self.data[first_row:last_row]


def digested_column(
    *,
    num_rows: int,
    row_bytes: int,
    read_bytes: int | None = None,
    batch_rows: list[int] | None = None,
    has_digests: bool = True,
    seed: int = 0,
    name: str = "kv.k.0",
    data: np.ndarray | None = None,
) -> DigestedColumn:
    """The given bytes, or random ones."""
    if data is None:
        data = np.random.default_rng(seed).integers(0, 256, (num_rows, row_bytes), dtype=np.uint8)
    return DigestedColumn(
        name=name,
        data=data,
        read_bytes=row_bytes if read_bytes is None else read_bytes,
        batch_rows=[num_rows] if batch_rows is None else batch_rows,
        has_digests=has_digests,
    )
