"""Copies of a dump's files, in another folder and under their own names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kvaudit.core.dataset import AuditedPool
from kvaudit.core.observer import RunObserver
from kvaudit.errors import ConfigError
from kvaudit.formats.atomic_file import make_folder
from kvaudit.formats.plan_writer import write_plan
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot


def copy_targets(pools: Sequence[AuditedPool], folder: Path) -> dict[str, Path]:
    """The copy of each file, by the file's path; makes the folder once nothing speaks against it.

    Raises:
        ConfigError: two files would get one name, or a copy would replace its file.
        FileUnwritable: the folder cannot be made.
    """
    paths = [
        path
        for pool in pools
        for path in (
            pool.snapshot.path,
            *(part.path for part in pool.sequences),
            *(plan.path for plan in pool.plans),
        )
    ]
    targets = {path: folder / Path(path).name for path in dict.fromkeys(paths)}
    if len(set(targets.values())) != len(targets):
        raise ConfigError(
            "two files would get one name", hint="name the files of one folder at a time"
        )
    for path, target in targets.items():
        if target.resolve() == Path(path).resolve():
            raise ConfigError(f"the copy would replace {path}", hint="choose another folder")
    make_folder(folder)
    return targets


def write_copies(targets: Mapping[str, Path], pool: AuditedPool, *, observer: RunObserver) -> None:
    """Write a pool's files where `copy_targets` says.

    Args:
        targets: where each goes, by its path.
        pool: the pool as the copies shall have it.
        observer: told of each file.

    Raises:
        FileUnwritable: the system refused one.
    """
    write_snapshot(targets[pool.snapshot.path], pool.snapshot)
    observer.advance(1)
    for sequences in pool.sequences:
        write_sequences(targets[sequences.path], sequences)
        observer.advance(1)
    for plan in pool.plans:
        write_plan(targets[plan.path], plan)
        observer.advance(1)
