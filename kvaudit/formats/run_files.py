"""The files of a recorded run: a trace, the snapshots around it, and the state at its end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kvaudit.core.canary_state import CanaryState
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.recorded_run import RecordedMoment, RecordedRun
from kvaudit.core.report import InputFile
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import FileUnreadable, InputError, SchemaMismatch, SnapshotInconsistent
from kvaudit.formats.arrow_file import ArrowFile, open_arrow
from kvaudit.formats.dataset import open_dataset
from kvaudit.formats.file_bytes import is_remote
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.pairing_key import file_name
from kvaudit.formats.reader import NOT_CHECKSUMMED, read_with_notes
from kvaudit.formats.schema import FILE_SUFFIX, FileKind
from kvaudit.formats.trace_reader import FileTrace, open_trace

StrPath = str | os.PathLike[str]

# Where a recorder puts the snapshots of a step, beside the trace.
STEP_FOLDERS = "step-*"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A file beside the trace. It is opened again when it is read: a long run has many."""

    path: str
    kind: FileKind
    key: PoolKey
    checksummed: bool

    @classmethod
    def of(cls, file: ArrowFile) -> _Found:
        key, _ = MetadataValues(file.metadata, file.path).pool_key()
        return cls(path=file.path, kind=file.kind, key=key, checksummed=file.checksummed)

    @property
    def input_file(self) -> InputFile:
        """What the report says of it."""
        return InputFile(
            path=self.path,
            kind=self.kind,
            key={} if self.key.step is None else {"step": self.key.step},
            notes=[] if self.checksummed else [NOT_CHECKSUMMED],
        )


def open_run(
    path: StrPath,
    *,
    start: StrPath | None = None,
    against: StrPath | None = None,
    until: int | None = None,
) -> RecordedRun:
    """Open a trace with the snapshots and the state of its pool.

    They are those beside the trace and in the folders `step-*` there, by their pairing keys.

    Args:
        path: the trace, or the folder of a run that has one.
        start: the snapshot to begin with; None = the earliest one.
        against: the snapshot to end with, and to compare with last; None = the run's own end.
        until: the last step to replay; None = the trace's.

    Raises:
        InputError: a file cannot be used, or there is no trace or no snapshot to begin with.
    """
    trace_path = _trace_path(os.fspath(path))
    trace = open_trace(trace_path)
    around = [file for file in _around(trace) if file.key.pairs_with(trace.key)]
    found = {shot.step: shot for shot in _snapshots(around)}
    first = _named(start, trace.key) if start is not None else _earliest(found, trace)
    last = None if against is None else _named(against, trace.key)
    if last is not None:
        found[last.step] = last
    bounds = [step for step in (until, None if last is None else last.step) if step is not None]
    last_step = min(bounds, default=None)
    later = [
        found[step]
        for step in sorted(found)
        if step > first.step and (last_step is None or step <= last_step)
    ]
    begin = open_dataset([first.file.path])
    states = list(_states(around)) if last_step is None else []
    files = [
        _trace_file(trace),
        *begin.files,
        *(shot.file for shot in later),
        *(file for _, file in states),
    ]
    return RecordedRun(
        trace=trace,
        start=begin.pools[0],
        start_step=first.step,
        later=later,
        last_step=last_step,
        state=states[0][0] if states else None,
        # Beside the first snapshot, the trace is its companion, too.
        files=list({file.path: file for file in reversed(files)}.values())[::-1],
    )


def _trace_path(path: str) -> str:
    """The trace itself, or that of a folder.

    Raises:
        FileUnreadable: the folder cannot be read, or has none.
        SchemaMismatch: it has several.
    """
    if is_remote(path) or not Path(path).is_dir():
        return path
    found = sorted(str(each) for each in Path(path).glob(f"*.{FileKind.PLAN}{FILE_SUFFIX}"))
    if not found:
        raise FileUnreadable(
            f"the folder holds no .{FileKind.PLAN}{FILE_SUFFIX} file",
            path=path,
            hint="give a trace, or the folder that a recorder wrote it to",
        )
    if len(found) > 1:
        raise SchemaMismatch(
            f"the folder holds {len(found)} traces", path=path, hint=f"give one: {', '.join(found)}"
        )
    return found[0]


def _around(trace: FileTrace) -> Iterator[_Found]:
    """The files beside a trace and in the folders of its steps.

    Others may lie there too: one that cannot be opened counts if its name is that of this run.
    """
    if is_remote(trace.path):
        return
    folder = Path(trace.path).parent
    names = {file_name(trace.key, kind) for kind in (FileKind.SNAPSHOT, FileKind.STATE)}
    for pattern in (f"*{FILE_SUFFIX}", f"{STEP_FOLDERS}/*{FILE_SUFFIX}"):
        for path in sorted(folder.glob(pattern)):
            try:
                yield _Found.of(open_arrow(str(path)))
            except InputError:
                if path.name in names:
                    raise


def _snapshots(files: Sequence[_Found]) -> Iterator[RecordedMoment]:
    """Those that say their step.

    Raises:
        SnapshotInconsistent: two are of one step.
    """
    seen: dict[int, str] = {}
    for file in files:
        step = file.key.step
        if file.kind != FileKind.SNAPSHOT or step is None:
            continue
        if step in seen:
            raise SnapshotInconsistent(
                f"it has the pairing key of {seen[step]}",
                path=file.path,
                hint="keep one of the two in the folder of the run",
            )
        seen[step] = file.path
        yield _moment(file, step)


def _earliest(found: dict[int, RecordedMoment], trace: FileTrace) -> RecordedMoment:
    if not found:
        raise FileUnreadable(
            "there is no snapshot of its pool beside it to begin with",
            path=trace.path,
            hint="pass --from SNAPSHOT",
        )
    return found[min(found)]


def _named(path: StrPath, key: PoolKey) -> RecordedMoment:
    """A snapshot given by name.

    Raises:
        SchemaMismatch: it is none, or does not say its step.
        SnapshotInconsistent: it is of another pool.
    """
    file = _Found.of(open_arrow(os.fspath(path)))
    if file.kind != FileKind.SNAPSHOT:
        raise SchemaMismatch(
            f"it is a {file.kind} file, not a snapshot",
            path=file.path,
            hint="give a .snapshot.arrow file of the run",
        )
    if file.key.step is None:
        raise SchemaMismatch(
            "it does not say its step", path=file.path, hint="write kvaudit.step into its metadata"
        )
    if not file.key.pairs_with(key):
        raise SnapshotInconsistent(
            f"it is of pool {file.key.label()}, and the trace of {key.label()}",
            path=file.path,
            hint="give a snapshot of the trace's own pool",
        )
    return _moment(file, file.key.step)


def _moment(file: _Found, step: int) -> RecordedMoment:
    return RecordedMoment(file=file.input_file, step=step, read=partial(_read, file.path))


def _read(path: str) -> AuditedPool:
    return open_dataset([path]).pools[0]


def _states(files: Sequence[_Found]) -> Iterator[tuple[CanaryState, InputFile]]:
    for file in files:
        if file.kind == FileKind.STATE:
            read = read_with_notes(file.path)
            if isinstance(read.content, CanaryState):
                yield read.content, read.input_file


def _trace_file(trace: FileTrace) -> InputFile:
    return InputFile(
        path=trace.path,
        kind=FileKind.PLAN,
        key=replace(trace.key, step=None).given(),
        notes=[] if trace.file.checksummed else [NOT_CHECKSUMMED],
    )
