"""A Report as the one JSON document of DESIGN.md 5."""

from __future__ import annotations

import json
from typing import TextIO

from kvaudit.core.report import Report


def write_json(report: Report, stream: TextIO) -> None:
    """Write one document in ASCII, so that no encoding of the stream can break it."""
    json.dump(report.to_dict(), stream, indent=2, allow_nan=False)
    stream.write("\n")
