"""Readers of a slot as people read them, and as `kvaudit blame` takes them."""

from __future__ import annotations

from collections.abc import Sequence

from kvaudit.core.blame_report import BlameReport
from kvaudit.core.slot_readers import SlotReader
from kvaudit.render.labels import listed
from kvaudit.render.printable import printable


def reader_label(reader: SlotReader) -> str:
    """`tale@9`; of an entry whose plan does not name requests `position 9`."""
    if reader.request_id is None:
        return f"position {reader.position}"
    return f"{printable(reader.request_id)}@{reader.position}"


def readers_label(readers: Sequence[SlotReader], *, most: int = 4) -> str:
    """Readers joined by commas, each once; past `most` the rest is counted."""
    return listed(list(dict.fromkeys(map(reader_label, readers))), most=most)


def unread_label(report: BlameReport) -> str:
    """What to say of a slot that nobody is known to read."""
    return "read by nobody" if report.has_expectations else ""
