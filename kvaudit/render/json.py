"""A result as one JSON document: a Report as that of DESIGN.md 5, a benchmark as its own."""

from __future__ import annotations

import json
from typing import TextIO

from kvaudit.core.bench_report import BenchReport
from kvaudit.core.report import Report


def write_json(report: Report | BenchReport, stream: TextIO) -> None:
    """Write one document in ASCII, so that no encoding of the stream can break it."""
    json.dump(report.to_dict(), stream, indent=2, allow_nan=False)
    stream.write("\n")
