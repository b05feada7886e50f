"""Which files a run reads: those given, folders expanded, companions found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import FileUnreadable, InputError, SchemaMismatch
from kvaudit.formats.arrow_file import open_arrow
from kvaudit.formats.file_bytes import is_remote
from kvaudit.formats.file_set import FileSet, FoundFile
from kvaudit.formats.given_path import refuse_empty
from kvaudit.formats.left_out import kind_by_name
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.schema import EXPECTATIONS, FILE_SUFFIX, KEY_PREFIX


def find_files(paths: Sequence[str], *, companions: bool) -> FileSet:
    """Open the files and folders given, and the companions of the snapshots among them.

    A file that cannot be opened is left out, and so is a snapshot whose companions cannot be.

    Args:
        paths: files, folders, URIs.
        companions: whether to look for expectations that were not given by name: those in a given
            folder, those that a snapshot names, and those beside it with its pairing key.

    Raises:
        InputError: a folder holds no file, or there is no snapshot that can be opened.
    """
    files = FileSet()
    for path in paths:
        refuse_empty(path)
        _add_given(files, path, companions=companions)
    snapshots = files.snapshots()
    if not snapshots and not files.left_out:
        raise InputError(
            "there is no snapshot among the files given",
            path=", ".join(paths) or None,
            hint="give a .snapshot.arrow file, or the folder that holds one",
        )
    if companions:
        for found in snapshots:
            try:
                _add_companions(files, found)
            except InputError as error:
                files.leave_out(found, error)
    if not files.snapshots():
        raise files.left_out[0].error
    return files


def _add_given(files: FileSet, path: str, *, companions: bool) -> None:
    """Take in a file, or those of a folder."""
    if is_remote(path) or not _is_folder(path):
        if (file := files.opened(path)) is not None:
            files.add(file, demanded=True)
        return
    for inside in _folder_files(path):
        # Where expectations are given by name, those of the folder are not read, sound or not.
        needed = companions or kind_by_name(inside) not in EXPECTATIONS
        file = files.opened(inside, needed=needed)
        if file is not None and (companions or file.kind not in EXPECTATIONS):
            files.add(file, demanded=False)


def _is_folder(path: str) -> bool:
    """Whether a path is a folder; where nobody may look, opening it says why."""
    try:
        return Path(path).is_dir()
    except OSError:
        return False


def _folder_files(folder: str) -> list[str]:
    def refuse(error: OSError) -> None:
        raise _unlisted(error, folder if error.filename is None else str(error.filename)) from error

    inside = sorted(
        os.path.join(place, name)  # noqa: PTH118 - keeps the path as the user wrote it
        for place, _, names in os.walk(folder, onerror=refuse)
        for name in names
        if name.endswith(FILE_SUFFIX)
    )
    if not inside:
        raise FileUnreadable(
            f"the folder holds no {FILE_SUFFIX} file", path=folder, hint="give a dump's folder"
        )
    return inside


def _unlisted(error: OSError, folder: str) -> FileUnreadable:
    return FileUnreadable(
        (error.strerror or str(error)).lower(),
        path=folder,
        hint="check that you may list the folder, or give its files by name",
    )


def _add_companions(files: FileSet, snapshot: FoundFile) -> None:
    """Those that the snapshot names; if it names none, those beside it with its key."""
    metadata = MetadataValues(snapshot.file.metadata, snapshot.file.path)
    named = [(key, name) for key in EXPECTATIONS for name in _companion_names(metadata, key)]
    for key, name in named:
        companion = _open_named(files, snapshot.file.path, key=key, name=name)
        if companion.file.kind != key:
            raise SchemaMismatch(
                f"it is a {companion.file.kind} file, and {snapshot.file.path} names it as {key}",
                path=companion.file.path,
                hint=f"correct {KEY_PREFIX}{key}, or pass --expect",
            )
        companion.owners.add(snapshot.file.path)
    if named or not snapshot.demanded or is_remote(snapshot.file.path):
        return
    pool_key, _ = metadata.pool_key()
    for path in _siblings(snapshot.file.path):
        if not files.has(path) and not files.is_left_out(path):
            _add_if_companion(files, path, snapshot_path=snapshot.file.path, key=pool_key)


def _open_named(files: FileSet, snapshot_path: str, *, key: str, name: str) -> FoundFile:
    path = _beside(snapshot_path, name)
    try:
        return files.open(path, demanded=True)
    except FileUnreadable as error:
        if files.is_left_out(path):
            raise
        raise FileUnreadable(
            f"{error.message}, and {snapshot_path} names it in {KEY_PREFIX}{key}",
            path=error.path,
            hint="put it beside the snapshot, or pass --expect FILE",
        ) from error


def _companion_names(metadata: MetadataValues, key: str) -> tuple[str, ...]:
    """The companions under one key: a name, or a JSON list of names; never outside the folder."""
    text = metadata.peek(key)
    if text is None:
        return ()
    names = metadata.names(key) if text.startswith("[") else (text,)
    for name in names:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or is_remote(name) or "\\" in name:
            raise metadata.refuse(key, name, "a file beside the snapshot or below it")
    return names


def _beside(path: str, name: str) -> str:
    if is_remote(path):
        return path.rpartition("/")[0] + "/" + name
    return str(Path(path).parent / name)


def _siblings(path: str) -> list[str]:
    folder = Path(path).parent
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise _unlisted(error, str(folder)) from error
    return [str(folder / name) for name in names if name.endswith(FILE_SUFFIX)]


def _add_if_companion(files: FileSet, path: str, *, snapshot_path: str, key: PoolKey) -> None:
    """Take in a file beside a snapshot if it holds expectations with its key.

    One that cannot be opened is passed over, unless its name says that it belongs to the snapshot.
    """
    try:
        file = open_arrow(path)
        other = MetadataValues(file.metadata, path).pool_key()[0]
    except InputError:
        if Path(path).name.split(".")[0] == Path(snapshot_path).name.split(".")[0]:
            raise
        return
    if file.kind in EXPECTATIONS and other.pairs_with(key):
        files.add(file, demanded=False)
