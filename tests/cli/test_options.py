from __future__ import annotations

from pathlib import Path

import pytest

from kvaudit.cli.options import families, layer0_source, layers, rules
from kvaudit.core.audit_options import Layer0
from kvaudit.core.coverage import Family
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.errors import ConfigError, FileUnreadable, SchemaMismatch
from kvaudit.formats.table_writer import write_table
from tests.helpers import dumps
from tests.helpers.layer0_tables import layer0_table


def test_families_may_be_repeated_or_joined() -> None:
    assert families(None) is None
    assert families([]) is None
    assert families(["index", "records, bytes"]) == {Family.INDEX, Family.RECORDS, Family.BYTES}


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as raised:
        families(["index", "kv"])
    assert "identity" in raised.value.hint


def test_layers_are_numbers_and_ranges() -> None:
    assert layers(None) is None
    assert layers(["17", "0-2,5"]) == (0, 1, 2, 5, 17)


@pytest.mark.parametrize("text", ["k", "-1", "3-1", "1-", "1.5", "9999999"])
def test_a_layer_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        layers([text])


def test_rules_may_be_repeated_or_joined_and_keep_their_spelling() -> None:
    assert rules(None) == ()
    assert rules(["KV101", "kv2, slot-alias"]) == ("KV101", "kv2", "slot-alias")


@pytest.mark.parametrize("word", Layer0)
def test_layer_0_is_judged_by_a_word(word: Layer0) -> None:
    assert layer0_source(str(word)) is word


def test_layer_0_is_judged_by_a_table(tmp_path: Path) -> None:
    path = tmp_path / "off"
    write_table(path, layer0_table())
    found = layer0_source(str(path))
    assert isinstance(found, Layer0Table)
    assert found.path == str(path)


def test_another_file_is_no_table_and_a_missing_one_is_named(tmp_path: Path) -> None:
    dumps.write(tmp_path)
    with pytest.raises(SchemaMismatch, match="snapshot file, not a table") as refused:
        layer0_source(str(tmp_path / "target.snapshot.arrow"))
    assert "kvaudit learn" in refused.value.hint
    with pytest.raises(FileUnreadable):
        layer0_source("automatic")
