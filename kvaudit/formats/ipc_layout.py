"""Where the parts of an Arrow IPC file lie, proven before pyarrow is let near it.

The footer and the message headers are flatbuffers. Read here by hand, with every offset checked,
they give what pyarrow does not tell or tells too late: whether a batch is compressed, how many rows
there are, that every buffer lies inside its batch, and that neither batches nor the buffers of one
count more bytes than there are. So a file expands to no more than its own size. Only the few fields
needed are looked at; pyarrow verifies the rest.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.errors import LimitExceeded, NotArrow
from kvaudit.formats.arrow_errors import NOT_ARROW_HINT
from kvaudit.formats.limits import LIMIT_HINT, MAX_BATCHES, MAX_HEADER_BYTES, MAX_ROWS

MAGIC: Final = b"ARROW1"
# The magic, padded: the schema message follows.
SCHEMA_OFFSET: Final = 8
_TRAILER_BYTES: Final = 4 + len(MAGIC)
_CONTINUATION: Final = 0xFFFF_FFFF
_UINT32: Final = 0xFFFF_FFFF

# Field numbers of the tables of Arrow's File.fbs and Message.fbs.
_FOOTER_DICTIONARIES, _FOOTER_BATCHES = 2, 3
_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER, _MESSAGE_BODY_BYTES = 1, 2, 3
_BATCH_LENGTH, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 2, 3
_DICTIONARY_DATA = 1
_HEADER_DICTIONARY, _HEADER_BATCH = 2, 3
_BLOCK_BYTES: Final = 24
_BUFFER_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class IpcLayout:
    """What the footer and the headers promise, checked against the file's size.

    Fields:
        batch_rows: rows of each record batch.
        num_dictionaries: dictionary batches.
    """

    batch_rows: tuple[int, ...]
    num_dictionaries: int


class _Region:
    """A part of the file as flatbuffer words; whatever lies outside it raises NotArrow."""

    def __init__(self, content: memoryview, path: str) -> None:
        self.content = content
        self.path = path

    def damaged(self, what: str) -> NotArrow:
        return NotArrow(what, path=self.path, hint=NOT_ARROW_HINT)

    def bytes_at(self, position: int, num_bytes: int) -> memoryview:
        if position < 0 or num_bytes < 0 or position + num_bytes > len(self.content):
            raise self.damaged("a header points outside the file")
        return self.content[position : position + num_bytes]

    def word(self, form: str, position: int) -> int:
        return int(struct.unpack(form, self.bytes_at(position, struct.calcsize(form)))[0])

    def part(self, position: int, num_bytes: int) -> _Region:
        """A header within the file."""
        if num_bytes > MAX_HEADER_BYTES:
            raise LimitExceeded(
                f"a header of {num_bytes} bytes; at most {MAX_HEADER_BYTES} are read",
                path=self.path,
                hint=LIMIT_HINT,
            )
        return _Region(self.bytes_at(position, num_bytes), self.path)

    def table(self, position: int) -> _Table:
        """The table that the offset at `position` leads to."""
        return _Table(self, position + self.word("<I", position))


class _Table:
    """A flatbuffer table: its fields by number."""

    def __init__(self, region: _Region, position: int) -> None:
        self._region = region
        self._position = position
        self._vtable = position - region.word("<i", position)
        self._vtable_bytes = region.word("<H", self._vtable)

    def position(self, field: int) -> int | None:
        """Where a field lies; None when it is left at its default."""
        entry = 4 + 2 * field
        if entry + 2 > self._vtable_bytes:
            return None
        offset = self._region.word("<H", self._vtable + entry)
        return self._position + offset if offset else None

    def number(self, field: int, form: str) -> int:
        position = self.position(field)
        return 0 if position is None else self._region.word(form, position)

    def table(self, field: int) -> _Table | None:
        position = self.position(field)
        return None if position is None else self._region.table(position)

    def structs(self, field: int, struct_bytes: int) -> NDArray[np.int64]:
        """A vector of structs of 8-byte words; shape [n, words], int64."""
        position = self.position(field)
        if position is None:
            return np.empty((0, struct_bytes // 8), dtype=np.int64)
        start = position + self._region.word("<I", position)
        num_structs = self._region.word("<I", start)
        content = self._region.bytes_at(start + 4, num_structs * struct_bytes)
        return np.frombuffer(content, dtype="<i8").reshape(num_structs, struct_bytes // 8)


def read_layout(content: memoryview, path: str) -> IpcLayout:
    """Check footer and headers of a whole file.

    Raises:
        NotArrow: magic, footer or a header is damaged, something points outside the file, or a
            batch is compressed.
        LimitExceeded: too many batches or rows, or a header that is too large.
    """
    whole = _Region(content, path)
    footer = _footer(whole)
    dictionary_blocks = footer.structs(_FOOTER_DICTIONARIES, _BLOCK_BYTES)
    batch_blocks = footer.structs(_FOOTER_BATCHES, _BLOCK_BYTES)
    num_blocks = len(dictionary_blocks) + len(batch_blocks)
    if num_blocks > MAX_BATCHES:
        raise LimitExceeded(
            f"{num_blocks} batches; at most {MAX_BATCHES} are read", path=path, hint=LIMIT_HINT
        )
    dictionaries, batches = dictionary_blocks.tolist(), batch_blocks.tolist()
    for block in dictionaries:
        _check_block(whole, block, _HEADER_DICTIONARY)
    batch_rows = tuple(_check_block(whole, block, _HEADER_BATCH) for block in batches)
    if _overlap(dictionaries + batches):
        raise whole.damaged("its batches overlap")
    if sum(batch_rows) > MAX_ROWS:
        raise LimitExceeded(
            f"{sum(batch_rows)} rows; at most {MAX_ROWS} are read", path=path, hint=LIMIT_HINT
        )
    return IpcLayout(batch_rows=batch_rows, num_dictionaries=len(dictionaries))


def _overlap(blocks: list[list[int]]) -> bool:
    """Whether two batches share bytes of the file."""
    spans = sorted(
        (offset, offset + (header_bytes & _UINT32) + body_bytes)
        for offset, header_bytes, body_bytes in blocks
    )
    return any(span[1] > following[0] for span, following in pairwise(spans))


def _footer(whole: _Region) -> _Table:
    num_bytes = len(whole.content)
    if bytes(whole.content[: len(MAGIC)]) != MAGIC:
        raise whole.damaged("it is not an Arrow IPC file")
    footer_end = num_bytes - _TRAILER_BYTES
    if footer_end < SCHEMA_OFFSET or bytes(whole.content[-len(MAGIC) :]) != MAGIC:
        raise whole.damaged("its end is missing")
    footer_bytes = whole.word("<i", footer_end)
    return whole.part(footer_end - footer_bytes, footer_bytes).table(0)


def _check_block(whole: _Region, block: list[int], header_type: int) -> int:
    """Check one batch of the footer; returns its rows."""
    offset, header_bytes, body_bytes = block
    # The word in the middle of a block is an int32 and its padding.
    header_bytes &= _UINT32
    message_bytes = whole.word("<I", offset)
    prefix_bytes = 4
    if message_bytes == _CONTINUATION:
        message_bytes = whole.word("<I", offset + 4)
        prefix_bytes = 8
    if prefix_bytes + message_bytes > header_bytes:
        raise whole.damaged("a batch's header is longer than the footer says")
    message = whole.part(offset + prefix_bytes, message_bytes).table(0)
    whole.bytes_at(offset + header_bytes, body_bytes)
    batch = message.table(_MESSAGE_HEADER)
    if message.number(_MESSAGE_HEADER_TYPE, "<B") != header_type or batch is None:
        raise whole.damaged("a batch is not where the footer says")
    if message.number(_MESSAGE_BODY_BYTES, "<q") != body_bytes:
        raise whole.damaged("a batch's size differs from the footer's")
    if header_type == _HEADER_DICTIONARY:
        batch = batch.table(_DICTIONARY_DATA)
        if batch is None:
            raise whole.damaged("a dictionary has no values")
    return _check_batch(whole, batch, body_bytes)


def _check_batch(whole: _Region, batch: _Table, body_bytes: int) -> int:
    if batch.position(_BATCH_COMPRESSION) is not None:
        raise NotArrow(
            "it is compressed, and so cannot be mapped",
            path=whole.path,
            hint="rewrite it uncompressed: pyarrow.feather.write_feather(pyarrow.feather."
            "read_table(old), new, compression='uncompressed')",
        )
    buffers = batch.structs(_BATCH_BUFFERS, _BUFFER_BYTES)
    starts, sizes = buffers[:, 0], buffers[:, 1]
    # Compared so that no sum can overflow.
    if ((starts < 0) | (sizes < 0) | (starts > body_bytes) | (sizes > body_bytes - starts)).any():
        raise whole.damaged("a buffer lies outside its batch")
    # Python's integers: a sum of so many sizes could overflow.
    if sum(sizes.tolist()) > body_bytes:
        raise whole.damaged("the buffers of a batch are larger than it is")
    num_rows = batch.number(_BATCH_LENGTH, "<q")
    if num_rows < 0:
        raise whole.damaged("a batch has a negative number of rows")
    return num_rows
