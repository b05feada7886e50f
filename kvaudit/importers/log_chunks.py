"""A log of any size in pieces that end with a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

CHUNK_BYTES: Final = 1 << 22
# A line past this is cut: no line of a canary comes near it.
MAX_LINE_BYTES: Final = 1 << 14


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    r"""The same bytes in pieces that each end with a line; all line ends are `\n`.

    A line longer than a piece is cut. Zero bytes are left out: a log in UTF-16 is mostly them.
    """
    rest = b""
    for piece in pieces:
        text = rest + piece
        end = text.rfind(b"\n") + 1
        if not end and len(text) < CHUNK_BYTES:
            rest = text
            continue
        end = end or len(text)
        yield _plain(text[:end])
        rest = text[end:]
    if rest:
        yield _plain(rest)


def _plain(text: bytes) -> bytes:
    if b"\0" in text:
        text = text.translate(None, b"\0")
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text
