"""FORMAT.md says what the code does: every name is there, every query runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kvaudit import errors
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.formats import schema
from kvaudit.formats.page_grain import PAGE_SLOTS_COLUMN
from kvaudit.formats.reader import read_file
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.formats.state_writer import write_state
from kvaudit.formats.table_writer import write_table
from tests.helpers.arrow_files import canary_state, full_snapshot, snapshot
from tests.helpers.layer0_tables import layer0_table

ROOT = Path(__file__).parents[2]
DOCUMENT = Path(schema.__file__).with_name("FORMAT.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```python\n(.*?)```", DOCUMENT, flags=re.DOTALL)


def test_every_column_of_the_code_is_described():
    names = {
        *schema.EVIDENCE_TYPES,
        *schema.SEQUENCES_REQUIRED,
        *schema.SEQUENCES_OPTIONAL,
        *schema.PLAN_REQUIRED,
        *schema.PLAN_OPTIONAL,
        *schema.TRACE_COLUMNS,
        *schema.TABLE_REQUIRED,
        *schema.TABLE_ROWS,
        *schema.TABLE_COUNTS,
        schema.SLOT_COLUMN,
        PAGE_SLOTS_COLUMN,
    }
    assert [name for name in sorted(names) if f"`{name}`" not in DOCUMENT] == []
    for family in schema.COLUMN_FAMILIES:
        assert f"`{family}.<" in DOCUMENT


@pytest.mark.parametrize(
    "table",
    [
        schema.SEQUENCES_REQUIRED,
        schema.SEQUENCES_OPTIONAL,
        schema.EVIDENCE_TYPES,
        schema.PLAN_REQUIRED,
        schema.PLAN_OPTIONAL,
        schema.TRACE_COLUMNS,
        schema.RING_COLUMNS,
        schema.TABLE_REQUIRED,
        schema.TABLE_COUNTS,
    ],
)
def test_every_column_is_described_with_its_type(table):
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| `")]
    for name, arrow_type in table.items():
        row = next(line for line in rows if f"`{name}`" in line.split("|")[1])
        assert f"| {schema.type_word(arrow_type)}" in row, name


def test_every_metadata_key_that_is_written_is_described(tmp_path):
    import pyarrow as pa

    wanted = full_snapshot()
    write_snapshot(tmp_path / "a.arrow", wanted)
    keys = {key.decode() for key in pa.ipc.open_file(tmp_path / "a.arrow").schema.metadata}
    own = keys - {f"kvaudit.{key}" for key in wanted.metadata}
    assert len(own) > 15
    write_state(tmp_path / "b.arrow", canary_state())
    write_table(tmp_path / "c.arrow", layer0_table())
    for name in ("b.arrow", "c.arrow"):
        own |= {key.decode() for key in pa.ipc.open_file(tmp_path / name).schema.metadata}
    assert [key for key in sorted(own) if f"`{key}`" not in DOCUMENT] == []


def test_every_error_of_a_hostile_file_is_named():
    named = {"FileUnwritable", "ModelNotApplicable", "SnapshotInconsistent"}
    classes = {error.__name__ for error in errors.InputError.__subclasses__()} - named
    assert [name for name in sorted(classes) if f"`{name}`" not in DOCUMENT] == []


@pytest.fixture
def root(monkeypatch):
    """The folder that the queries are written for."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def changed_dump(tmp_path, monkeypatch):
    """The same folder, but slot 21 of the dump of digests changed."""
    digests = np.arange(32)
    changed = digests + (digests == 21)
    (tmp_path / "examples" / "smollm2-digests").mkdir(parents=True)
    write_snapshot(
        tmp_path / "examples" / "smollm2-digests" / "full.snapshot.arrow",
        snapshot(
            32,
            stamped={"kv.k.0": ArrayColumn(name="stamped.k.0", values=digests)},
            digests={"kv.k.0": ArrayColumn(name="digest.k.0", values=changed)},
        ),
    )
    monkeypatch.chdir(tmp_path)


def run(query: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(query, "FORMAT.md", "exec"), names)  # noqa: S102 - the document's own text
    return names


def test_the_document_has_the_three_queries_tested_here():
    assert [
        line for query in QUERIES for line in re.findall(r"^(\w+) = ", query, re.MULTILINE)
    ] == [
        "sequences",
        "readers",
        "snapshot",
        "changed",
        "snapshot",
        "records",
    ]


@pytest.mark.usefixtures("root")
def test_the_polars_query_names_the_request_that_reads_a_slot(capsys):
    assert run(QUERIES[0])["readers"].rows() == [("tale", 9)]
    assert "request_id" in capsys.readouterr().out


@pytest.mark.usefixtures("root")
def test_the_first_duckdb_query_finds_nothing_in_the_shipped_dump(capsys):
    run(QUERIES[1])
    assert "0 rows" in capsys.readouterr().out


@pytest.mark.usefixtures("changed_dump")
def test_the_first_duckdb_query_finds_a_changed_slot(capsys):
    run(QUERIES[1])
    rows = re.findall(r"│\s+(\d+) │\s+(\d+) │", capsys.readouterr().out)
    assert rows == [("21", "1")]


@pytest.mark.usefixtures("root")
def test_the_second_duckdb_query_shows_tokens_and_positions(capsys):
    run(QUERIES[2])
    printed = capsys.readouterr().out
    dumped = read_file(ROOT / "examples" / "smollm2-damaged" / "full.snapshot.arrow")
    records = dumped.canary["k.tail"].read().tolist()
    for slot, (token, position, *_) in zip(dumped.slots.tolist()[-8:], records[-8:], strict=True):
        assert re.search(rf"{slot} │\s+{token} │\s+{position} │", printed)
