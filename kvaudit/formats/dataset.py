"""The files of one run, read and paired: each snapshot with what it should hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kvaudit.core.canary_state import CanaryState
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.plan import PlanDump
from kvaudit.core.report import InputFile
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import PoolKey, Snapshot
from kvaudit.errors import InputError, SchemaMismatch, SnapshotInconsistent
from kvaudit.formats.file_search import find_files
from kvaudit.formats.file_set import FileSet, FoundFile
from kvaudit.formats.left_out import lost_pools
from kvaudit.formats.reader import ReadFile, read_arrow
from kvaudit.formats.schema import EXPECTATIONS

_UNUSED = "no snapshot of this run has its pairing key"
_STATE = "the counters of a run: kvaudit show prints them, and no audit reads them"
_TABLE = "a table of layer-0 rows: verify reads it by --layer0"
StrPath = str | os.PathLike[str]


@dataclass(slots=True, eq=False)
class _Pool:
    """A pool while its expectations are gathered."""

    snapshot: Snapshot
    sequences: list[Sequences] = field(default_factory=list)
    plans: list[PlanDump] = field(default_factory=list)


def open_dataset(paths: Iterable[StrPath], *, expect: Iterable[StrPath] = ()) -> Dataset:
    """Read files and folders and pair them by their keys.

    Of several pools, one whose own files cannot be used is left out and named.

    Args:
        paths: snapshots, sequences, plans, folders of them, URIs.
        expect: sequences and plans that replace the search for companions.

    Raises:
        InputError: there is no snapshot, the only pool's files cannot be used, or an expectation
            cannot that may belong to any pool.
        SnapshotInconsistent: two files have one key and kind, or expectations that were given by
            name fit no snapshot.
    """
    expected = [os.fspath(path) for path in expect]
    files = find_files([os.fspath(path) for path in paths], companions=not expected)
    for path in expected:
        found = files.open(path, demanded=True)
        if found.file.kind not in EXPECTATIONS:
            raise SchemaMismatch(
                f"it is a {found.file.kind} file, not an expectation",
                path=path,
                hint="pass a sequences or plan file to --expect",
            )
    read = _read(files, set(expected))
    _refuse_twins([file for _, file in read])
    left_out = files.left_out
    lost = lost_pools(left_out, (found.file.path for found in files.snapshots()))
    gone = {file.path for file in lost}
    read = [(found, file) for found, file in read if found.file.path not in gone]
    pools = [_Pool(file.content) for _, file in read if isinstance(file.content, Snapshot)]
    if not pools:
        raise left_out[0].error
    pair = partial(_pair, pools=pools, is_whole=not left_out)
    return Dataset(
        files=[
            *(pair(found, file) for found, file in read),
            *(file.input_file() for file in (*left_out, *lost)),
        ],
        pools=[
            AuditedPool(snapshot=pool.snapshot, sequences=pool.sequences, plans=pool.plans)
            for pool in pools
        ],
        # A snapshot whose companion is left out has the companion's error.
        left_out=list(dict.fromkeys(file.error for file in left_out)),
    )


def _read(files: FileSet, expected: set[str]) -> list[tuple[FoundFile, ReadFile]]:
    """Read the files; one that cannot be used is left out, unless it is given as an expectation.

    Raises:
        InputError: a file of `expected` cannot be used.
    """
    read = []
    for found in files:
        try:
            read.append((found, read_arrow(found.file)))
        except InputError as error:
            if found.file.path in expected:
                raise
            files.leave_out(found, error)
    return read


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


def _pair(found: FoundFile, file: ReadFile, *, pools: Sequence[_Pool], is_whole: bool) -> InputFile:
    """Give an expectation to the pools it fits; returns what the report says of the file.

    In a set that is not whole it may belong to a pool that was left out: it fits a pool then whose
    key has every part that it gives, and is not refused if it fits none.
    """
    content = file.content
    if isinstance(content, Snapshot):
        return file.input_file
    if isinstance(content, CanaryState):
        return replace(file.input_file, notes=[*file.input_file.notes, _STATE])
    if isinstance(content, Layer0Table):
        return replace(file.input_file, notes=[*file.input_file.notes, _TABLE])
    candidates = [pool for pool in pools if not found.owners or pool.snapshot.path in found.owners]
    fitting = [pool for pool in candidates if content.key.pairs_with(pool.snapshot.key)]
    if not fitting and found.demanded:
        agrees = _agrees if is_whole else _states
        fitting = [pool for pool in candidates if agrees(file, pool.snapshot.key)]
    for pool in fitting:
        if isinstance(content, Sequences):
            pool.sequences.append(content)
        else:
            pool.plans.append(content)
    if fitting:
        return file.input_file
    if found.demanded and is_whole:
        raise SnapshotInconsistent(
            "its pairing key fits no snapshot: " + _differences(file, candidates[0].snapshot.key),
            path=file.input_file.path,
            hint="give the snapshot it belongs to, or correct the key",
        )
    return replace(file.input_file, notes=[*file.input_file.notes, _UNUSED])


def _agrees(file: ReadFile, key: PoolKey) -> bool:
    """Whether no part of the key that a file gives contradicts the snapshot's."""
    return not _differences(file, key)


def _states(file: ReadFile, key: PoolKey) -> bool:
    """Whether the snapshot's key has every part that a file gives."""
    return all(getattr(key, part) == value for part, value in file.input_file.key.items())


def _differences(file: ReadFile, key: PoolKey) -> str:
    """The parts that a file gives and a snapshot has otherwise, for people."""
    return ", ".join(
        f"{part} {value} and not {getattr(key, part)}"
        for part, value in file.input_file.key.items()
        if getattr(key, part) not in (None, value)
    )
