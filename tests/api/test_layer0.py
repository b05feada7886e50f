from __future__ import annotations

from pathlib import Path

import pytest

from kvaudit import api
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.layer0_table import TableSource
from kvaudit.errors import ConfigError, InputError, NotArrow, SchemaMismatch
from kvaudit.formats.table_writer import write_table
from tests.helpers.command_line import ROOT
from tests.helpers.pool_files import stamped, two_ranks, written


def test_a_dump_of_a_model_teaches_what_its_tokens_hold() -> None:
    table = api.learn(api.open([ROOT / "examples" / "smollm2-clean"]), backend="cpu")
    assert table.source is not TableSource.MODEL


def test_a_dump_without_float_rows_teaches_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        api.learn(api.open([written(stamped(), tmp_path / "pool")]), backend="cpu")


def test_a_set_with_a_file_that_cannot_be_used_teaches_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotArrow):
        api.learn(api.open([two_ranks(tmp_path / "set", damaged=stamped())]), backend="cpu")


def test_a_table_that_was_written_judges_the_dumps_of_its_model(tmp_path: Path) -> None:
    dataset = api.open([ROOT / "examples" / "smollm2-bled"])
    write_table(
        tmp_path / "table.arrow", api.learn(api.open([ROOT / "examples" / "smollm2-clean"]))
    )
    table = api.open_table(tmp_path / "table.arrow")
    report = api.audit(dataset, backend="cpu", options=AuditOptions(layer0=table))
    [finding] = report.findings
    assert (finding.rule, finding.request_ids) == ("KV210", ["tale"])
    with pytest.raises(SchemaMismatch):
        api.open_table(dataset.files[0].path)


def test_a_folder_without_a_model_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        api.learn_model(tmp_path)


@pytest.mark.parametrize("options", [{"dtype": "int8"}, {"rope_layout": "thirds"}], ids=str)
def test_a_word_that_is_not_known_is_an_error_of_the_options(
    tmp_path: Path, options: dict[str, str]
) -> None:
    with pytest.raises(ConfigError):
        api.learn_model(tmp_path, **options)
