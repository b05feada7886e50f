"""A JSON report of `kvaudit verify`, read again."""

from __future__ import annotations

from typing import Any, Final

from kvaudit.core.coverage import Family
from kvaudit.core.report import REPORT_SCHEMA
from kvaudit.core.saved_report import SavedFinding, SavedReport
from kvaudit.errors import SchemaMismatch

ALTERNATIVE: Final = "alternative"


def saved_report_of(document: dict[str, Any], *, path: str) -> SavedReport:
    """The report of a parsed document.

    Raises:
        SchemaMismatch: it is another document of kvaudit, or a key is missing or mistyped.
    """
    schema = document.get("schema")
    if schema != REPORT_SCHEMA:
        raise SchemaMismatch(
            f"its schema is {schema!r}, not {REPORT_SCHEMA!r}",
            path=path,
            hint="explain reads the reports that verify, diff and replay write with --format json",
        )
    try:
        return SavedReport(
            verdict=_text(document["verdict"]),
            exit_code=_whole(document["exit_code"]),
            coverage={
                str(family): (_whole(found["checked"]), _whole(found["planned"]))
                for family in Family
                if (found := document["coverage"][family]) is not None
            },
            num_violations=_whole(document["violations"]["total"]),
            findings=[_finding(each) for each in document["findings"]],
            incomplete_reasons=[_text(each) for each in document.get("incomplete_reasons", ())],
        )
    except (KeyError, TypeError) as error:
        what = f"key {error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise SchemaMismatch(
            f"is no whole {REPORT_SCHEMA} document: {what}",
            path=path,
            hint="save a report by --output json=FILE",
        ) from error


def _finding(document: dict[str, Any]) -> SavedFinding:
    severity = document["severity"]
    return SavedFinding(
        rule=_text(document["rule"]),
        name=_text(document["name"]),
        severity=ALTERNATIVE if severity is None else _text(severity),
        summary=_text(document["summary"]),
        request_ids=[_text(each) for each in document["request_ids"]],
        alternatives=[_text(each) for each in document["alternatives"]],
        settled_by=_text(document["settled_by"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise TypeError(f"{value!r:.40} is no count")
    return value
