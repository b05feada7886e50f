"""What write_table leaves on disk."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.errors import FileUnwritable, ValuesInvalid
from kvaudit.formats.table_writer import write_table
from tests.helpers.layer0_tables import layer0_table


def _written(path):
    table = pa.ipc.open_file(path).read_all()
    metadata = {
        key.decode().removeprefix("kvaudit."): value.decode()
        for key, value in table.schema.metadata.items()
    }
    return table, metadata


def test_a_row_is_a_token_and_what_concerns_all_is_metadata(tmp_path):
    wanted = layer0_table()
    write_table(tmp_path / "a.arrow", wanted, metadata={"engine": "toy"})
    table, metadata = _written(tmp_path / "a.arrow")
    assert table["token"].to_pylist() == [3, 8]
    assert table["k0"].to_pylist() == [row.tobytes() for row in wanted.k0]
    assert table["v0"].to_pylist() == [row.tobytes() for row in wanted.v0]
    assert table["rows_agreeing"].to_pylist() == [6, 1]
    assert (metadata["kind"], metadata["engine"], metadata["source"]) == ("table", "toy", "learnt")
    assert (metadata["dtype"], metadata["num_heads"], metadata["head_dim"]) == (
        "bfloat16",
        "2",
        "4",
    )
    assert json.loads(metadata["rope"])["layout"] == "interleaved"
    assert (tmp_path / "a.arrow").stat().st_mode & 0o777 == 0o600


def test_what_a_table_does_not_know_is_left_out(tmp_path):
    bare = layer0_table(k0=None, rope=None, rows_seen=None, rows_agreeing=None, model="", note="")
    write_table(tmp_path / "a.arrow", bare)
    table, metadata = _written(tmp_path / "a.arrow")
    assert table.column_names == ["token", "v0"]
    assert not {"rope", "model", "note"} & metadata.keys()


def test_tokens_of_no_whole_numbers_are_refused(tmp_path):
    with pytest.raises(ValuesInvalid):
        write_table(tmp_path / "a.arrow", layer0_table(tokens=np.array([3.0, 8.0])))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileUnwritable):
        write_table(tmp_path / "none" / "a.arrow", layer0_table())
