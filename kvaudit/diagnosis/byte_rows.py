"""The KV bytes of rows that differ, column by column, beside the hash that they should have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PARTIAL_READ_BYTES, RealKvHashMode
from kvaudit.core.claims import NO_ROW
from kvaudit.diagnosis.byte_moves import homes_in
from kvaudit.diagnosis.byte_view import ByteView, Channel
from kvaudit.diagnosis.row_sets import among, union_of
from kvaudit.kernels.hash.arrays import mixed, unmixed

# Rows of a column whose bytes are looked at; what is behind them is explained by its hashes alone.
_MAX_ROWS: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByteRows:
    """Some rows of a column that differ, or that could.

    Fields:
        column: the column.
        rows: the rows, shape [n], int64.
        written: the hash that their bytes should have, shape [n], uint64. Where a combined hash
            alone was stamped, it is solved from that as if all other columns were right.
        held: the hash that they have, shape [n], uint64.
        data: the bytes that are hashed, shape [n, num_bytes], uint8; None in a dump of digests.
        is_solved: whether only some of the columns of which the rows are here can be wrong.
    """

    column: str
    rows: NDArray[np.int64]
    written: NDArray[np.uint64]
    held: NDArray[np.uint64]
    data: NDArray[np.uint8] | None
    is_solved: bool

    @property
    def words(self) -> NDArray[np.uint64] | None:
        """The words that are hashed, shape [n, num_words], uint64; None in a dump of digests."""
        return None if self.data is None else words_of(self.data)


def words_of(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Bytes, shape [n, num_bytes], as the fold reads them: shape [n, num_words], uint64."""
    num_words = -(-data.shape[1] // 8)
    padded = np.zeros((len(data), num_words * 8), dtype=np.uint8)
    padded[:, : data.shape[1]] = data
    return padded.view("<u8").astype(np.uint64, copy=False)


def folded(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The source hash of each row of words, shape [n, num_words], uint64; shape [n]."""
    running = np.zeros(len(words), dtype=np.uint64)
    for word in words.T:
        running = mixed(running ^ word)
    return running


def solved_words(words: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """What each word must have been for the row's hash, if all the others are right.

    The fold runs forward to a word and, as the mixer is a bijection, back from the hash to it.

    Args:
        words: shape [n, num_words], uint64.
        hashes: the hash that each row should have, shape [n], uint64.

    Returns:
        shape [n, num_words], uint64.
    """
    solved = np.empty_like(words)
    running = np.zeros(len(words), dtype=np.uint64)
    for number in range(words.shape[1]):
        solved[:, number] = running
        running = mixed(running ^ words[:, number])
    running = hashes
    for number in reversed(range(words.shape[1])):
        before = unmixed(running)
        solved[:, number] ^= before
        running = before ^ words[:, number]
    return solved


def byte_rows(view: ByteView) -> Iterator[ByteRows]:
    """The open rows of each column that differs, then those whose combined hash alone does.

    Where there are too many to look at, those that hold nothing, or another slot's bytes, are left
    out first: their hashes say all of them, and a single row must not be lost among them.
    """
    differing: dict[str, list[NDArray[np.int64]]] = {}
    channels = view.channels()
    crowd = _crowd(channels)
    for channel in channels:
        half = str(view.half_of(channel))
        if channel.is_column:
            if channel.name in view.sources_of(view.half_of(channel)):
                differing.setdefault(half, []).append(channel.rows)
            yield _of_column(view, channel, np.flatnonzero(~among(channel.rows, crowd)))
        else:
            known = union_of([crowd, *differing.get(half, [])])
            alone = np.flatnonzero(~among(channel.rows, known))
            yield from _of_combined(view, channel, alone[:_MAX_ROWS])


def _crowd(channels: Sequence[Channel]) -> NDArray[np.int64]:
    """Rows whose hashes say what they hold, of channels with too many; shape [n], int64, ascending."""
    asked = np.empty(0, dtype=np.int64)
    crowd = [asked]
    for channel in channels:
        members = np.flatnonzero(~among(channel.rows, asked))
        if len(members) > _MAX_ROWS:
            is_known = (channel.held[members] == 0) | (
                homes_in(channel.written, channel.held[members]) != NO_ROW
            )
            crowd.append(channel.rows[members[is_known]])
            asked = np.union1d(asked, channel.rows)
    return union_of(crowd)


def _of_column(view: ByteView, channel: Channel, members: NDArray[np.int64]) -> ByteRows:
    rows = channel.rows[members[:_MAX_ROWS]]
    return ByteRows(
        column=channel.name,
        rows=rows,
        written=channel.written[rows],
        held=channel.held[members[:_MAX_ROWS]],
        data=_hashed_bytes(view, channel.name, rows, is_leading=False),
        is_solved=False,
    )


def _of_combined(
    view: ByteView, channel: Channel, members: NDArray[np.int64]
) -> Iterator[ByteRows]:
    """Every column of a combined hash, each as if it were the one that is wrong."""
    rows = channel.rows[members]
    columns = view.sources_of(view.half_of(channel))
    if not rows.size:
        return
    is_leading = view.evidence.snapshot.real_kv_hash_mode is RealKvHashMode.PARTIAL
    hashes = np.empty((len(rows), len(columns)), dtype=np.uint64)
    for number, column in enumerate(columns):
        held = source_hashes(view, column, rows, is_leading=is_leading)
        if held is None:
            return
        hashes[:, number] = held
    solved = solved_words(hashes, channel.written[rows])
    for number, column in enumerate(columns):
        yield ByteRows(
            column=column,
            rows=rows,
            written=solved[:, number],
            held=hashes[:, number],
            data=_hashed_bytes(view, column, rows, is_leading=is_leading),
            is_solved=len(columns) > 1,
        )


def source_hashes(
    view: ByteView, column: str, rows: NDArray[np.int64], *, is_leading: bool
) -> NDArray[np.uint64] | None:
    """The hash of rows, shape [n], int64, now: of all bytes that are read, or of PARTIAL's."""
    if not is_leading:
        return view.content.source_hashes(column, rows)
    data = _hashed_bytes(view, column, rows, is_leading=True)
    return None if data is None else folded(words_of(data))


def _hashed_bytes(
    view: ByteView, column: str, rows: NDArray[np.int64], *, is_leading: bool
) -> NDArray[np.uint8] | None:
    data = view.content.kv_bytes(column, rows)
    if data is None:
        return None
    num_bytes = view.evidence.snapshot.kv[column].read_bytes
    return data[:, : min(num_bytes, PARTIAL_READ_BYTES) if is_leading else num_bytes]
