"""The files of one run, read and paired: each snapshot with what it should hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.plan import PlanDump
from kvaudit.core.report import InputFile
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import PoolKey, Snapshot
from kvaudit.errors import SchemaMismatch, SnapshotInconsistent
from kvaudit.formats.file_search import FoundFile, find_files, same_pool
from kvaudit.formats.reader import ReadFile, read_arrow
from kvaudit.formats.schema import FileKind

_UNUSED = "no snapshot of this run has its pairing key"
StrPath = str | os.PathLike[str]


@dataclass(slots=True, eq=False)
class _Pool:
    """A pool while its expectations are gathered."""

    snapshot: Snapshot
    sequences: list[Sequences] = field(default_factory=list)
    plans: list[PlanDump] = field(default_factory=list)


def open_dataset(paths: Iterable[StrPath], *, expect: Iterable[StrPath] = ()) -> Dataset:
    """Read files and folders and pair them by their keys.

    Args:
        paths: snapshots, sequences, plans, folders of them, URIs.
        expect: sequences and plans that replace the search for companions.

    Raises:
        InputError: a file cannot be used, or there is no snapshot.
        SnapshotInconsistent: two files have one key and kind, or expectations that were given by
            name fit no snapshot.
    """
    expected = [os.fspath(path) for path in expect]
    files = find_files([os.fspath(path) for path in paths], companions=not expected)
    for path in expected:
        found = files.open(path, demanded=True)
        if found.file.kind == FileKind.SNAPSHOT:
            raise SchemaMismatch(
                "it is a snapshot, not an expectation",
                path=path,
                hint="pass a sequences or plan file to --expect",
            )
    read = [(found, read_arrow(found.file)) for found in files]
    _refuse_twins([file for _, file in read])
    pools = [_Pool(file.content) for _, file in read if isinstance(file.content, Snapshot)]
    input_files = [_pair(found, file, pools) for found, file in read]
    return Dataset(
        pools=[
            AuditedPool(snapshot=pool.snapshot, sequences=pool.sequences, plans=pool.plans)
            for pool in pools
        ],
        files=input_files,
    )


def _refuse_twins(files: Sequence[ReadFile]) -> None:
    """Refuse two files of one kind and pairing key: either may be the one that is meant."""
    seen: dict[tuple[str, PoolKey], str] = {}
    for file in files:
        identity = (file.input_file.kind, file.content.key)
        path = file.input_file.path
        if identity in seen:
            raise SnapshotInconsistent(
                f"it has the kind and the pairing key of {seen[identity]}",
                path=path,
                hint="give one of the two, or dump each with its own step, rank or group",
            )
        seen[identity] = path


def _pair(found: FoundFile, file: ReadFile, pools: Sequence[_Pool]) -> InputFile:
    """Give an expectation to the pools it fits; returns what the report says of the file."""
    content = file.content
    if isinstance(content, Snapshot):
        return file.input_file
    candidates = [pool for pool in pools if not found.owners or pool.snapshot.path in found.owners]
    fitting = [pool for pool in candidates if same_pool(content.key, pool.snapshot.key)]
    if not fitting and found.demanded:
        fitting = [pool for pool in candidates if _agrees(file, pool.snapshot.key)]
    for pool in fitting:
        if isinstance(content, Sequences):
            pool.sequences.append(content)
        else:
            pool.plans.append(content)
    if fitting:
        return file.input_file
    if found.demanded:
        raise SnapshotInconsistent(
            "its pairing key fits no snapshot: " + _differences(file, candidates[0].snapshot.key),
            path=file.input_file.path,
            hint="give the snapshot it belongs to, or correct the key",
        )
    return replace(file.input_file, notes=[*file.input_file.notes, _UNUSED])


def _agrees(file: ReadFile, key: PoolKey) -> bool:
    """Whether no part of the key that a file gives contradicts the snapshot's."""
    return not _differences(file, key)


def _differences(file: ReadFile, key: PoolKey) -> str:
    """The parts that a file gives and a snapshot has otherwise, for people."""
    return ", ".join(
        f"{part} {value} and not {getattr(key, part)}"
        for part, value in file.input_file.key.items()
        if getattr(key, part) not in (None, value)
    )
