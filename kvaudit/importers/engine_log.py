"""An engine's log as events: violations, and the other lines of its canary."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from kvaudit.core.engine_log import LogEvent, LoggedViolation, LogLine
from kvaudit.importers.log_blocks import LogBlock, log_blocks
from kvaudit.importers.log_lines import line_facts
from kvaudit.importers.log_violations import violation_of

_RANK: Final = re.compile(r"\b(?:DP|PP|TP|EP)\d{1,6}\b")
# Lines of several processes mix: a first line waits so long for the lines that belong to it.
_MAX_WAITING: Final = 256

_Place = tuple[str, int, int]


def read_engine_log(pieces: Iterable[bytes]) -> Iterator[LogEvent]:
    """The events of a log that comes in pieces of any size, in bounded memory.

    A block without its first line is the rest of an earlier violation where one waits for it, and a
    violation of its own where none does. What cannot be read is left out.
    """
    waiting: OrderedDict[_Place, LoggedViolation] = OrderedDict()
    for block in log_blocks(pieces):
        event = _event(block)
        if not isinstance(event, LoggedViolation):
            if event is not None:
                yield event
            continue
        place = (event.tag, event.slot, event.position)
        if block.has_first_line and not _has_own_body(block, event):
            if place in waiting:
                yield waiting.pop(place)
            waiting[place] = event
            if len(waiting) > _MAX_WAITING:
                yield waiting.popitem(last=False)[1]
            continue
        first = None if block.has_first_line else waiting.pop(place, None)
        yield event if first is None else _completed(first, event)
    yield from waiting.values()


def _event(block: LogBlock) -> LogEvent | None:
    rank = " ".join(dict.fromkeys(_RANK.findall(block.prefix)))
    if block.is_violation:
        return violation_of(block.squeezed, rank=rank)
    found = line_facts(block.squeezed)
    return None if found is None else LogLine(kind=found[0], facts=found[1], rank=rank)


def _has_own_body(block: LogBlock, event: LoggedViolation) -> bool:
    """Whether the sentence below its first line is of the same slot, and no other process's."""
    place = f"kernel_kind={event.tag},slot_idx={event.slot},position={event.position})"
    return event.step is not None and place in block.squeezed


def _completed(first: LoggedViolation, body: LoggedViolation) -> LoggedViolation:
    return replace(first, step=body.step, total=body.total, ring_overflow=body.ring_overflow)
