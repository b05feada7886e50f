from __future__ import annotations

from pathlib import Path

import pytest

from kvaudit.cli.carried_options import carried_options
from kvaudit.cli.entry import run
from kvaudit.formats.table_writer import write_table
from tests.helpers import dumps
from tests.helpers.layer0_tables import layer0_table
from tests.helpers.verify_command import verify


def test_what_was_asked_for_is_asked_for_again_and_defaults_are_not() -> None:
    assert carried_options(expect=None, layer0="auto", tokenizer=None) == []
    asked = carried_options(expect=["a.plan.arrow", "b"], layer0="t.arrow", tokenizer="words.json")
    assert asked == [
        *("--expect", "a.plan.arrow", "--expect", "b"),
        *("--layer0", "t.arrow", "--tokenizer", "words.json"),
    ]
    assert carried_options(expect=(), layer0="off", tokenizer=None) == ["--layer0", "off"]


def test_a_table_goes_from_verify_to_blame_and_on_to_the_next_slot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a table alone tells would be gone in the next command without it."""
    folder, table = tmp_path / "dump", tmp_path / "t.arrow"
    dumps.write(folder, pool=dumps.flipped("kv.v.1", slot=3))
    write_table(table, layer0_table())
    _, out, _ = verify(capsys, folder, "--layer0", str(table))
    snapshot = folder / "target.snapshot.arrow"
    assert f"\n  kvaudit blame {snapshot} 3 --layer0 {table}\n" in out
    run(["blame", str(snapshot), "A@0", "--layer0", str(table)])
    assert f"\n  kvaudit blame {snapshot} --layer0 {table} 3\n" in capsys.readouterr().out
