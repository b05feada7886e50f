"""A file that is to be explained: a saved report, or an engine's log of any size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO, Final

from kvaudit.core.log_report import LogReport
from kvaudit.core.saved_report import SavedReport
from kvaudit.diagnosis.explain_log import explain_log
from kvaudit.errors import FileUnreadable, SchemaMismatch
from kvaudit.formats.given_path import refuse_empty
from kvaudit.importers.engine_log import read_engine_log
from kvaudit.importers.log_chunks import CHUNK_BYTES
from kvaudit.importers.saved_report import saved_report_of

# A report lists rows up to --max-violations; a log of JSON lines may be of any size.
MAX_REPORT_BYTES: Final = 1 << 26

_ARROW: Final = b"ARROW1"
_EXPECTED_HINT: Final = (
    "explain takes a rule (KV101 or slot-alias), a report saved by --output json=FILE, or an engine's "
    "log with lines such as 'kv_canary violation: ...'"
)


def explain_path(path: str) -> SavedReport | LogReport:
    """Explain a local file.

    Raises:
        FileUnreadable: the path is empty, or it is missing, a folder, or may not be read.
        SchemaMismatch: it is neither a report nor a log of a canary.
    """
    refuse_empty(path)
    with _read_errors_translated(path), Path(path).open("rb") as stream:
        return explain_stream(stream, path=path)


def explain_stream(stream: BinaryIO, *, path: str) -> SavedReport | LogReport:
    """Explain what a stream holds; it is read once, in bounded memory unless it is a report.

    Raises:
        FileUnreadable: it cannot be read.
        SchemaMismatch: it is neither a report nor a log of a canary.
    """
    with _read_errors_translated(path):
        head = stream.read(CHUNK_BYTES)
        if head.startswith(_ARROW):
            raise SchemaMismatch(
                "is an Arrow file, neither a report nor a log",
                path=path,
                hint=f"kvaudit verify judges it, and kvaudit show describes it: "
                f"kvaudit show {quote(path)}",
            )
        if head.lstrip().startswith(b"{"):
            head += stream.read(MAX_REPORT_BYTES - len(head))
            document = _document(head)
            if document is not None:
                return saved_report_of(document, path=path)
        return _explained_log(chain([head], _pieces(stream)), path=path)


def _explained_log(pieces: Iterable[bytes], *, path: str) -> LogReport:
    report = explain_log(read_engine_log(pieces))
    if not report.num_rows and not report.lines:
        raise SchemaMismatch("holds no line of a KV canary", path=path, hint=_EXPECTED_HINT)
    return report


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(CHUNK_BYTES):
        yield piece


def _document(text: bytes) -> dict[str, Any] | None:
    """A document of kvaudit; None of any other text, such as a log of JSON lines."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(document, dict) and str(document.get("schema", "")).startswith("kvaudit.")
    return document if is_ours else None


@contextmanager
def _read_errors_translated(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileUnreadable(
            (error.strerror or str(error)).lower(), path=path, hint=_EXPECTED_HINT
        ) from error
