"""Any file of kvaudit as its core object; the kind stands in the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvaudit.core.canary_state import CanaryState
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.plan import PlanDump
from kvaudit.core.report import InputFile
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import SchemaMismatch
from kvaudit.formats.arrow_file import ArrowFile, open_arrow
from kvaudit.formats.plan_reader import read_plan
from kvaudit.formats.schema import FileKind
from kvaudit.formats.sequences_reader import read_sequences
from kvaudit.formats.snapshot_reader import read_snapshot
from kvaudit.formats.state_reader import read_state
from kvaudit.formats.table_reader import read_table

NOT_CHECKSUMMED: Final = "file not checksummed"
Content = Snapshot | Sequences | PlanDump | CanaryState | Layer0Table
_Reader = Callable[[ArrowFile], tuple[Content, dict[str, str | int], list[str]]]
_READERS: Final[dict[FileKind, _Reader]] = {
    FileKind.SNAPSHOT: read_snapshot,
    FileKind.SEQUENCES: read_sequences,
    FileKind.PLAN: read_plan,
    FileKind.STATE: read_state,
    FileKind.TABLE: read_table,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadFile:
    """A file that was read.

    Fields:
        content: what it holds.
        input_file: what the report says of it.
    """

    content: Content
    input_file: InputFile


def read_file(path: str | os.PathLike[str]) -> Content:
    """Read and fully validate one file, local or a URI of `pyarrow.fs`.

    KV bytes stay in the map; their digests are checked as they are walked.

    Raises:
        InputError: one of its subclasses, naming file, column and row.
    """
    return read_with_notes(path).content


def read_layer0_table(path: str | os.PathLike[str]) -> Layer0Table:
    """Read a file that is to be a table of layer-0 rows.

    Raises:
        SchemaMismatch: it is of another kind.
        InputError: one of its other subclasses, naming file, column and row.
    """
    file = open_arrow(os.fspath(path))
    content = read_arrow(file).content
    if not isinstance(content, Layer0Table):
        raise SchemaMismatch(
            f"it is a {file.kind} file, not a table of layer-0 rows",
            path=file.path,
            hint="make a table with kvaudit learn",
        )
    return content


def read_with_notes(path: str | os.PathLike[str]) -> ReadFile:
    """Read one file as `read_file` does, with what the report says of it.

    Raises:
        InputError: one of its subclasses, naming file, column and row.
    """
    return read_arrow(open_arrow(os.fspath(path)))


def read_arrow(file: ArrowFile) -> ReadFile:
    """Read an opened file as its kind says.

    Raises:
        InputError: one of its subclasses, naming file, column and row.
    """
    content, given, notes = _READERS[file.kind](file)
    return ReadFile(
        content=content,
        input_file=InputFile(
            path=file.path,
            kind=str(file.kind),
            key=given,
            page_size=content.page_size if isinstance(content, Snapshot) else None,
            notes=[*([] if file.checksummed else [NOT_CHECKSUMMED]), *notes],
        ),
    )
