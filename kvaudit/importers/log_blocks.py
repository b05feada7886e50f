"""The parts of a log that a canary wrote: a violation's seven lines, or one line, wrapped or not.

A log is mostly other lines, so it is searched for one word, and lines are taken from there until
what began is complete. Inside a block every white space is left out: it may be a wrap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kvaudit.importers.log_chunks import MAX_LINE_BYTES, whole_lines
from kvaudit.importers.log_lines import line_facts

# All that a canary prints has it, but for the lines inside a block.
_WORD: Final = b"canary"
# What a block may reach to before it is taken as it is: seven lines wrapped at forty columns, with
# lines of other processes in between.
_MAX_BLOCK_LINES: Final = 64
_MAX_OTHER_LINES: Final = 16

# A wrap may follow any word of theirs.
_FIRST_LINE: Final = re.compile(r"kv_canary(?:\s+violation|\s*$)")
_SECOND_LINE: Final = re.compile(r"KV cache canary|canary violation detected")
_BODY_LINE: Final = re.compile(r"canary_kind:")
_OTHER_LINE: Final = re.compile(
    r"\[canary\]|kv-canary:|install_canary:|attach_canary_buffers:|kv_canary_swa_divergence=|"
    r"kv_canary swa_divergence:"
)
_LAST_FIELD: Final = re.compile(r"step_when_pumped=\d")
# Over how many lines a wrap may spread it.
_LAST_FIELD_LINES: Final = 3
_CONTROL: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0e-\x1f]")
_QUOTE: Final = re.compile(r"^[\s>|│]+")


@dataclass(slots=True, kw_only=True, eq=False)
class LogBlock:
    """Lines that belong together.

    Fields:
        prefix: what the logger wrote before its first line.
        is_violation: whether it is a violation's, and no other line of the canary.
        has_first_line: whether a violation's key=value line is in it.
        has_second_line: whether the sentence after that line is in it.
        lines: from its marker on, without colours and quote marks.
    """

    prefix: str
    is_violation: bool
    has_first_line: bool = False
    has_second_line: bool = False
    lines: list[str] = field(default_factory=list)

    @property
    def squeezed(self) -> str:
        """All lines without any white space."""
        return "".join("".join(self.lines).split())


class BlockAssembler:
    """Takes a log's lines in order and gives back blocks as they are complete."""

    def __init__(self) -> None:
        self._open: LogBlock | None = None

    @property
    def is_open(self) -> bool:
        """Whether the next line may belong to what came before."""
        return self._open is not None

    def take(self, raw: bytes) -> Iterator[LogBlock]:
        r"""Take one line; one that has its line ends as the two characters `\n` is several."""
        text = raw.decode("utf-8", errors="replace").replace("\\r", "").replace("\\n", "\n")
        for part in text.split("\n"):
            yield from self._take(_QUOTE.sub("", _CONTROL.sub("", part)))

    def finish(self) -> Iterator[LogBlock]:
        """Give back what the end of the log leaves incomplete."""
        if self._open is not None:
            yield self._open
            self._open = None

    def _take(self, text: str) -> Iterator[LogBlock]:
        started = _started(text, self._open)
        if started is not None:
            yield from self.finish()
            self._open = started
        elif self._open is not None:
            self._open.lines.append(text)
            self._open.has_second_line |= _SECOND_LINE.search(text) is not None
        if self._open is not None and _is_complete(self._open):
            yield from self.finish()


def log_blocks(pieces: Iterable[bytes]) -> Iterator[LogBlock]:
    """The blocks of a log that comes in pieces, in its order, in bounded memory."""
    assembler = BlockAssembler()
    for piece in whole_lines(pieces):
        at = 0
        while at < len(piece):
            if not assembler.is_open:
                word = piece.find(_WORD, at)
                if word < 0:
                    break
                at = max(at, piece.rfind(b"\n", at, word) + 1, word - MAX_LINE_BYTES // 2)
            end = piece.find(b"\n", at, at + MAX_LINE_BYTES)
            after = end + 1 if end >= 0 else at + MAX_LINE_BYTES
            yield from assembler.take(piece[at : end if end >= 0 else after])
            at = after
    yield from assembler.finish()


def _started(text: str, current: LogBlock | None) -> LogBlock | None:
    """The block that a line begins; None where it begins none, or goes on with the current one."""
    if found := _FIRST_LINE.search(text):
        return _block(text, found, has_first_line=True)
    if found := _SECOND_LINE.search(text):
        goes_on = current is not None and current.is_violation and not current.has_second_line
        return None if goes_on else _block(text, found, has_second_line=True)
    if found := _BODY_LINE.search(text):
        goes_on = current is not None and current.is_violation
        return None if goes_on else _block(text, found)
    if found := _OTHER_LINE.search(text):
        block = _block(text, found)
        block.is_violation = False
        return block
    return None


def _block(
    text: str,
    found: re.Match[str],
    *,
    has_first_line: bool = False,
    has_second_line: bool = False,
) -> LogBlock:
    return LogBlock(
        prefix=text[: found.start()],
        is_violation=True,
        has_first_line=has_first_line,
        has_second_line=has_second_line,
        lines=[text[found.start() :]],
    )


def _is_complete(block: LogBlock) -> bool:
    if not block.is_violation:
        return len(block.lines) >= _MAX_OTHER_LINES or line_facts(block.squeezed) is not None
    end = "".join("".join(block.lines[-_LAST_FIELD_LINES:]).split())
    return len(block.lines) >= _MAX_BLOCK_LINES or _LAST_FIELD.search(end) is not None
