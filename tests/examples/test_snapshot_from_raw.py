"""What is no raw dump is said to be none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.command_line import python

SCRIPT = Path(__file__).parents[2] / "examples" / "snapshot_from_raw.py"


@pytest.mark.parametrize("made", [False, True], ids=["no folder", "an empty folder"])
def test_a_folder_without_a_raw_dump_is_named(tmp_path: Path, *, made: bool) -> None:
    raw = tmp_path / "raw"
    if made:
        raw.mkdir()
    done = python(str(SCRIPT), raw, tmp_path / "dumps")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{raw / 'manifest.json'}: No such file or directory: ")
    assert f"let stamp_from_cuda write {raw} first" in line
    assert not (tmp_path / "dumps").exists()
