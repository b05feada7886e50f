"""Where a report goes: stdout in one format, and any number of files in others."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kvaudit.cli.options import ColorMode, OutputFormat
from kvaudit.cli.screen import is_styled, width_of
from kvaudit.cli.streams import write_errors_translated
from kvaudit.errors import ConfigError, FileUnwritable

if TYPE_CHECKING:
    from kvaudit.core.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A file that a report is written to."""

    form: OutputFormat
    path: str

    @classmethod
    def parse(cls, text: str) -> OutputFile:
        """Read `json=report.json`.

        Raises:
            ConfigError: no such format, or no file.
        """
        form, _, path = text.partition("=")
        if form not in list(OutputFormat) or not path:
            raise ConfigError(
                f"--output {text!r} is not FORMAT=FILE",
                hint=f"write json=report.json; the formats are {', '.join(OutputFormat)}",
            )
        return cls(form=OutputFormat(form), path=path)


def output_files(values: Iterable[str] | None, *, inputs: Sequence[str]) -> list[OutputFile]:
    """Read `--output`, and refuse before the audit what could not be written after it.

    Args:
        values: the option's values.
        inputs: the paths of every file that was read.

    Raises:
        ConfigError: a value is malformed, or names an input.
        FileUnwritable: a file's folder is missing, or it is a folder itself.
    """
    files = [OutputFile.parse(value) for value in values or ()]
    for file in files:
        with write_errors_translated(file.path):
            refuse_input(file.path, inputs=inputs)
            _refuse_folder(Path(file.path))
    return files


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise FileUnwritable(
            "is a folder", path=str(path), hint=f"name a file in it, as {path / 'report.json'}"
        )
    if not path.parent.is_dir():
        raise FileUnwritable(
            f"there is no folder {path.parent}", path=str(path), hint="make the folder first"
        )


def refuse_input(path: str, *, inputs: Sequence[str]) -> None:
    """Raise ConfigError when a file to be written is one that was read."""
    target = Path(path)
    for read in map(Path, inputs):
        if target.exists() and read.exists() and target.samefile(read):
            raise ConfigError(
                f"{path} is an input", hint="inputs are never written to: name another file"
            )


def write_report(
    report: Report,
    *,
    form: OutputFormat,
    files: Iterable[OutputFile],
    color: ColorMode,
    quiet: bool,
) -> None:
    """Write a report to stdout and to every file, whichever of them fails.

    Raises:
        FileUnwritable: the system refused a file, or stdout has no room.
    """
    stdout = sys.stdout
    styled, width = is_styled(color, stdout), width_of(stdout)
    try:
        _write(report, form, stdout, quiet=quiet, styled=styled, width=width)
    finally:
        for file in files:
            text = io.StringIO()
            _write(report, file.form, text)
            _save(text.getvalue().encode("utf-8", errors="backslashreplace"), Path(file.path))


def _write(
    report: Report,
    form: OutputFormat,
    stream: TextIO,
    *,
    quiet: bool = False,
    styled: bool = False,
    width: int | None = None,
) -> None:
    if form is OutputFormat.JSON:
        from kvaudit.render.json import write_json

        write_json(report, stream)
        return
    from kvaudit.render.text import write_text, write_verdict

    write = write_verdict if quiet else write_text
    write(report, stream, styled=styled, width=width)


def _save(data: bytes, path: Path) -> None:
    """A file appears whole or not at all; a device or a pipe is written to as it is."""
    from kvaudit.formats.atomic_file import atomic_file

    with write_errors_translated(str(path)):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        with atomic_file(path) as file:
            file.write(data)
