from __future__ import annotations

from pathlib import Path

from kvaudit.core.snapshot import Snapshot
from kvaudit.formats.run_files import open_run
from tests.helpers.replays import record_toy


def test_a_moment_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    record_toy(tmp_path, num_steps=4, digests_every=2)
    first, last = open_run(tmp_path).later
    assert [first.step, last.step] == [2, 4]
    read = first.read()
    assert isinstance(read.snapshot, Snapshot)
    assert read.snapshot.path == first.file.path
    assert len(read.sequences) == 1
