"""The steps of a run into a plan file, as they happen."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kvaudit.core.recorded_step import RecordedStep
from kvaudit.core.snapshot import PoolKey
from kvaudit.formats.arrow_writer import write_arrow
from kvaudit.formats.atomic_file import unwritable_as_input_error
from kvaudit.formats.metadata_values import check_metadata
from kvaudit.formats.schema import FileKind
from kvaudit.formats.trace_columns import TRACE_SCHEMA, num_values, trace_arrays

# Steps of one record batch: few enough to keep in memory, many enough to be worth a header.
MAX_BATCH_STEPS: Final = 1024
MAX_BATCH_VALUES: Final = 1 << 19


class TraceWriter:
    """Takes a run's steps one by one, and writes them when the run has ended.

    Steps wait in memory until they fill a record batch, and batches in an unnamed file beside the
    one to be written, which goes away with the process. `close` copies them into the file, which
    then appears complete; without it there is none.

    Args:
        path: the file; its folder exists, and an older file is replaced.
        key: the pairing key; its step is left out.
        metadata: further metadata keys, without the `kvaudit.` prefix.

    Raises:
        FileUnwritable: the system refused.
        SchemaMismatch: a metadata value is none that a reader accepts.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: PoolKey,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._key = replace(key, step=None)
        self._metadata = dict(metadata or {})
        check_metadata(self._metadata, path=os.fspath(path))
        self._pending: list[RecordedStep] = []
        self._pending_values = 0
        self._num_rows = 0
        with unwritable_as_input_error(path):
            self._spool = tempfile.TemporaryFile(dir=self.path.parent)  # noqa: SIM115 - until close
        self._batches = pa.ipc.new_stream(self._spool, TRACE_SCHEMA)

    def append(self, recorded: RecordedStep) -> None:
        """Take one step; steps never fall.

        Raises:
            FileUnwritable: the system refused.
            ValuesInvalid: a request's name is no text.
        """
        self._pending.append(recorded)
        self._pending_values += num_values(recorded)
        if len(self._pending) >= MAX_BATCH_STEPS or self._pending_values >= MAX_BATCH_VALUES:
            self._flush()

    def close(self) -> None:
        """Write the file.

        Raises:
            FileUnwritable: the system refused.
            ValuesInvalid: a request's name is no text.
        """
        try:
            self._flush()
            with unwritable_as_input_error(self.path):
                self._batches.close()
                self._spool.seek(0)
            write_arrow(
                self.path,
                kind=FileKind.PLAN,
                key=self._key,
                metadata=self._metadata,
                fields=TRACE_SCHEMA,
                num_rows=self._num_rows,
                batches=self._spooled(),
            )
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of all that was taken; nothing is written."""
        self._pending = []
        self._spool.close()

    def _flush(self) -> None:
        if not self._pending:
            return
        arrays = trace_arrays(self._pending, first_row=self._num_rows)
        with unwritable_as_input_error(self.path):
            self._batches.write_batch(pa.record_batch(arrays, schema=TRACE_SCHEMA))
        self._num_rows += len(self._pending)
        self._pending, self._pending_values = [], 0

    def _spooled(self) -> Iterator[list[Any]]:
        with pa.ipc.open_stream(self._spool) as stream:
            for batch in stream:
                yield batch.columns
