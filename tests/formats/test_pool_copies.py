from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvaudit.core.dataset import AuditedPool
from kvaudit.errors import ConfigError
from kvaudit.formats.pool_copies import copy_targets, write_copies
from kvaudit.formats.reader import read_file
from tests.helpers.comparing import dumped
from tests.helpers.watcher import Watcher


def _pool(folder: Path) -> AuditedPool:
    world = dumped()
    return AuditedPool(
        snapshot=world.snapshot(path=str(folder / "p.snapshot.arrow")),
        sequences=(replace(world.sequences(), path=str(folder / "p.sequences.arrow")),),
        plans=(replace(world.plan(step=0), path=str(folder / "p.plan.arrow")),),
    )


def test_every_file_of_a_pool_has_a_copy_of_its_name(tmp_path: Path) -> None:
    pool, out = _pool(tmp_path), tmp_path / "out"
    targets = copy_targets([pool], out)
    watcher = Watcher()
    watcher.stage("copies", len(targets))
    write_copies(targets, pool, observer=watcher)
    assert sorted(path.name for path in out.iterdir()) == [
        "p.plan.arrow",
        "p.sequences.arrow",
        "p.snapshot.arrow",
    ]
    assert read_file(out / "p.snapshot.arrow").num_rows == 16


def test_a_copy_replaces_neither_its_file_nor_another_copy(tmp_path: Path) -> None:
    pool = _pool(tmp_path)
    with pytest.raises(ConfigError, match="would replace"):
        copy_targets([pool], tmp_path)
    other = _pool(tmp_path / "other")
    with pytest.raises(ConfigError, match="one name"):
        copy_targets([pool, other], tmp_path / "out")
    assert not (tmp_path / "out").exists()
