from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from kvaudit.core.blame_report import BLAME_SCHEMA, Relation
from kvaudit.core.report import REPORT_SCHEMA
from tests.helpers import reports
from tests.helpers.slot_reports import DAMAGED

CLI = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_document_is_json_and_names_its_schema_and_the_slot_in_both_numberings() -> None:
    document = json.loads(json.dumps(DAMAGED.to_dict(), allow_nan=False))
    assert document["schema"] == BLAME_SCHEMA == "kvaudit.blame/1" != REPORT_SCHEMA
    assert (document["slot"], document["page"], document["page_offset"]) == (4103, 256, 7)
    assert (document["pool"], document["step"]) == ("FULL", 120)


def test_findings_and_rows_are_those_of_a_report() -> None:
    document = DAMAGED.to_dict()
    [named, tainting] = document["findings"]
    assert named.pop("relation") == "names it"
    assert named == DAMAGED.findings[0].finding.to_dict()
    assert tainting["relation"] == "taints a request that reads it"
    assert document["violations"] == [row.to_dict() for row in DAMAGED.violations]
    assert document["backend"] == reports.CPU.to_dict()


def test_the_findings_of_one_relation_are_in_the_reports_order() -> None:
    assert [found.rule for found in DAMAGED.related(Relation.NAMES)] == ["KV304"]
    assert DAMAGED.related(Relation.BEFORE) == []


# Documents of their own, and values by names that a file gives.
DESCRIBED_ELSEWHERE = {"inputs", "violations", "findings", "backend", "timing"}
BY_NAME = {"evidence", "prev_hashes"}


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _keys(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            if name not in DESCRIBED_ELSEWHERE | BY_NAME:
                yield from _keys(item)


def test_every_key_of_the_document_is_on_the_command_line_page() -> None:
    page = CLI.read_text(encoding="utf-8").partition("\n## blame\n")[2].partition("\n## ")[0]
    described = set(re.findall(r"`([a-z_]+)`", page))
    found = set(_keys(DAMAGED.to_dict()))
    assert {"bits", "written_columns", "stored_position", "solved_bytes", "roles"} <= found
    assert found <= described
