"""An Arrow IPC file opened, validated and ready to be read column by column."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from kvaudit.errors import FormatVersionUnsupported, LimitExceeded, NotArrow, SchemaMismatch
from kvaudit.formats.arrow_errors import NOT_ARROW_HINT, translated
from kvaudit.formats.column_checks import check_chunk_count, refuse_nulls
from kvaudit.formats.columns import ColumnBatch, corrupt
from kvaudit.formats.digests import schema_digest
from kvaudit.formats.file_bytes import FileBytes, open_file
from kvaudit.formats.ipc_layout import SCHEMA_OFFSET, IpcLayout, read_layout
from kvaudit.formats.limits import LIMIT_HINT, MAX_COLUMNS
from kvaudit.formats.schema import (
    DIGESTS_KEY,
    FORMAT_KEY,
    FORMAT_VERSION,
    KEY_PREFIX,
    KIND_KEY,
    FileKind,
    accepts,
    type_word,
)

_SHOWN_NAMES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrowFile:
    """A file whose layout and schema are proven; no value of it was read yet.

    Fields:
        source: its bytes.
        reader: pyarrow's reader over them.
        schema: the Arrow schema.
        kind: what the file holds.
        metadata: schema metadata with the `kvaudit.` prefix removed; kind, format and digests are
            left out.
        layout: rows of its batches.
        checksummed: whether it carries digests.
    """

    source: FileBytes
    reader: pa.ipc.RecordBatchFileReader
    schema: pa.Schema
    kind: FileKind
    metadata: Mapping[str, str]
    layout: IpcLayout
    checksummed: bool

    @property
    def path(self) -> str:
        """The file as the user wrote it."""
        return self.source.path

    @property
    def num_rows(self) -> int:
        """Rows of all batches."""
        return sum(self.layout.batch_rows)

    def column_type(self, name: str) -> pa.DataType | None:
        """The Arrow type of a column; None when the file has no such column."""
        return self.schema.field(name).type if name in self.schema.names else None

    def check_types(
        self, required: Mapping[str, Any], optional: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """Check the columns of a kind whose names are fixed; returns those present.

        Raises:
            SchemaMismatch: a required column is missing, or one has another type.
        """
        present = []
        for name, wanted in {**required, **optional}.items():
            found = self.column_type(name)
            if found is None:
                if name in required:
                    raise SchemaMismatch(
                        f"a {self.kind} file must have the column",
                        path=self.path,
                        column=name,
                        hint=f"add it with type {type_word(wanted)}",
                    )
                continue
            self.check_type(name, wanted)
            present.append(name)
        return tuple(present)

    def check_type(self, name: str, wanted: pa.DataType) -> None:
        """Check the type of one column.

        Raises:
            SchemaMismatch: it has another type.
        """
        found = self.column_type(name)
        if not accepts(wanted, found):
            raise SchemaMismatch(
                f"its type is {type_word(found)}, not {type_word(wanted)}",
                path=self.path,
                column=name,
                hint=f"write it as {type_word(wanted)}",
            )

    def ignored_notes(self, known: Collection[str]) -> list[str]:
        """A note for the report on the columns that are not of the format; none if there are none."""
        ignored = [name for name in self.schema.names if name not in known]
        if not ignored:
            return []
        shown = ", ".join(ignored[:_SHOWN_NAMES])
        more = len(ignored) - _SHOWN_NAMES
        return [f"columns not of the format: {shown}" + (f" and {more} more" if more > 0 else "")]

    def read_columns(
        self, names: Sequence[str], *, nullable: Collection[str] = ()
    ) -> dict[str, list[ColumnBatch]]:
        """Validate every batch of these columns in full and hand them out; no copy.

        Args:
            names: columns of the file.
            nullable: those whose rows may be null.

        Raises:
            NotArrow: a buffer contradicts its offsets, lengths or encoding.
            FileCorrupt: the digests do not fit the batches.
            ValuesInvalid: a null where none may be.
        """
        columns: dict[str, list[ColumnBatch]] = {name: [] for name in names}
        for _, batch in self.walk_columns(names, nullable=nullable):
            for name, column in batch.items():
                columns[name].append(column)
        return columns

    def walk_columns(
        self, names: Sequence[str], *, nullable: Collection[str] = ()
    ) -> Iterator[tuple[int, dict[str, ColumnBatch]]]:
        """The same, batch by batch: its first row, and its columns by name.

        Raises:
            FileUnreadable: the file shrank.
            NotArrow, FileCorrupt, ValuesInvalid: as for `read_columns`.
        """
        first_row = 0
        for batch_idx, num_rows in enumerate(self.layout.batch_rows):
            self.source.ensure_whole()
            with translated(self.path):
                batch, custom = self.reader.get_batch_with_custom_metadata(batch_idx)
            digests = self._digests_of(custom)
            columns: dict[str, ColumnBatch] = {}
            for name in names:
                with translated(self.path, name):
                    array = batch.column(self.schema.get_field_index(name))
                    array.validate(full=True)
                refuse_nulls(
                    self.path, name, array, first_row=first_row, whole_rows=name not in nullable
                )
                column = ColumnBatch(
                    array=array, digests=None if digests is None else digests.get(name)
                )
                check_chunk_count(self.source, name, column, checksummed=self.checksummed)
                columns[name] = column
            yield first_row, columns
            first_row += num_rows

    def _digests_of(self, custom: pa.KeyValueMetadata | None) -> Mapping[str, Any] | None:
        """The digests in a batch's metadata; the schema says whether there must be any."""
        text = None if custom is None else custom.get(DIGESTS_KEY.encode())
        if (text is not None) != self.checksummed:
            raise corrupt(self.source, None)
        return None if text is None else _json_object(self.source, text)


def open_arrow(path: str) -> ArrowFile:
    """Open a file and prove its layout and schema.

    Raises:
        FileUnreadable: it cannot be opened.
        NotArrow: it is no complete, uncompressed Arrow IPC file.
        LimitExceeded: it is larger than `limits` allows.
        FileCorrupt: the schema's digest differs.
        SchemaMismatch: it is not kvaudit's, or has a column twice.
        FormatVersionUnsupported: a newer kvaudit wrote it.
    """
    source = open_file(path)
    layout = read_layout(memoryview(source.buffer), path)
    with translated(path):
        reader = pa.ipc.open_file(source.buffer)
        schema = reader.schema
        # The file begins with a copy for readers of streams: both must say the same.
        first_schema = pa.ipc.read_schema(source.buffer.slice(SCHEMA_OFFSET))
        names = schema.names
        metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    if not schema.equals(first_schema, check_metadata=True):
        raise NotArrow("its two schemas differ", path=path, hint=NOT_ARROW_HINT)
    if len(names) > MAX_COLUMNS:
        raise LimitExceeded(
            f"{len(names)} columns; at most {MAX_COLUMNS} are read", path=path, hint=LIMIT_HINT
        )
    checksummed = _check_schema_digest(source, schema, metadata, num_rows=sum(layout.batch_rows))
    kind = _kind_of(metadata, path)
    for name, count in Counter(names).items():
        if count > 1:
            raise SchemaMismatch(
                f"there are {count} columns of this name",
                path=path,
                column=name,
                hint="keep one of them",
            )
    return ArrowFile(
        source=source,
        reader=reader,
        schema=schema,
        kind=kind,
        metadata={
            key.removeprefix(KEY_PREFIX): value
            for key, value in metadata.items()
            if key not in (KIND_KEY, FORMAT_KEY, DIGESTS_KEY)
        },
        layout=layout,
        checksummed=checksummed,
    )


def _check_schema_digest(
    source: FileBytes, schema: pa.Schema, metadata: Mapping[str, str], *, num_rows: int
) -> bool:
    """Whether the file carries digests; the one of its schema is compared."""
    text = metadata.get(DIGESTS_KEY)
    if text is None:
        return False
    expected = _json_object(source, text.encode())
    found = {"schema": schema_digest(schema, metadata), "rows": num_rows}
    if expected != found:
        raise corrupt(source, None)
    return True


def _json_object(source: FileBytes, text: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise corrupt(source, None) from None
    if not isinstance(document, dict):
        raise corrupt(source, None)
    return document


def _kind_of(metadata: Mapping[str, str], path: str) -> FileKind:
    kind = metadata.get(KIND_KEY)
    if kind is None:
        raise SchemaMismatch(
            f"it has no metadata key {KIND_KEY}, so it is no file of kvaudit",
            path=path,
            hint="write it as FORMAT.md says",
        )
    version = metadata.get(FORMAT_KEY)
    if version != FORMAT_VERSION:
        raise FormatVersionUnsupported(
            f"its format version is {version}, and this kvaudit reads {FORMAT_VERSION}",
            path=path,
            hint="use a newer kvaudit, or set kvaudit.format",
        )
    if kind not in set(FileKind):
        raise SchemaMismatch(
            f"its kind {kind!r} is not one that is audited",
            path=path,
            hint=f"give files of the kinds {', '.join(FileKind)}",
        )
    return FileKind(kind)
