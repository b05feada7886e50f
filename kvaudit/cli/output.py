"""Where a report goes: stdout in one format, and any number of files in others."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import ColorMode, OutputFormat
from kvaudit.cli.screen import complain, is_styled, width_of
from kvaudit.cli.streams import write_errors_translated
from kvaudit.errors import ConfigError, FileUnwritable

if TYPE_CHECKING:
    from kvaudit.core.report import Report
    from kvaudit.render.token_labels import TokenWords


class DocumentWriter(Protocol):
    """Writes a result in any of its formats."""

    def __call__(
        self,
        form: str,
        stream: TextIO,
        /,
        *,
        quiet: bool = False,
        styled: bool = False,
        width: int | None = None,
    ) -> None:
        """Write it; what only text knows is ignored by the other formats."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A file that a report is written to."""

    form: StrEnum
    path: str

    @classmethod
    def parse(cls, text: str, forms: type[StrEnum] = OutputFormat) -> OutputFile:
        """Read `json=report.json`.

        Raises:
            ConfigError: no such format, or no file.
        """
        form, _, path = text.partition("=")
        if form not in list(forms) or not path:
            raise ConfigError(
                f"--output {text!r} is not FORMAT=FILE",
                hint=f"write json=report.json; the formats are {', '.join(forms)}",
            )
        return cls(form=forms(form), path=path)


def output_files(
    values: Iterable[str] | None,
    *,
    inputs: Sequence[str],
    forms: type[StrEnum] = OutputFormat,
) -> list[OutputFile]:
    """Read `--output`, and refuse before the run what could not be written after it.

    Args:
        values: the option's values.
        inputs: the paths of every file that was read.
        forms: the formats that there are.

    Raises:
        ConfigError: a value is malformed, or names an input, or a file that another one names.
        FileUnwritable: a file's folder is missing, or it is a folder itself.
    """
    files = [OutputFile.parse(value, forms) for value in values or ()]
    taken: set[Path] = set()
    for file in files:
        check_target(file.path, inputs=inputs)
        with write_errors_translated(file.path):
            target = Path(file.path).resolve()
        # A device takes one document after another.
        if target in taken and (target.is_file() or not target.exists()):
            raise ConfigError(
                f"--output names {file.path} twice: one document would replace the other",
                hint="give each a file of its own",
            )
        taken.add(target)
    return files


def check_target(path: str, *, inputs: Sequence[str]) -> None:
    """Refuse before a run a file that could not be written after it.

    Args:
        path: the file to be written.
        inputs: the paths of every file that is read.

    Raises:
        ConfigError: it is an input.
        FileUnwritable: its folder is missing, or it is a folder itself.
    """
    with write_errors_translated(path):
        refuse_input(path, inputs=inputs)
        _refuse_folder(Path(path))


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
    words: TokenWords | None = None,
    step: str = "",
) -> None:
    """Write the report of an audit; see `write_documents`.

    Words of tokens stand in text alone: what a machine reads, or a page that is passed on, has none.
    So does the step, the command to run next.
    """
    write = partial(_write, report, words=words, step=step)
    write_documents(write, form=form, files=files, color=color, quiet=quiet)


def end_with(
    report: Report,
    *,
    exit_zero: bool,
    form: OutputFormat,
    files: Iterable[OutputFile],
    color: ColorMode,
    quiet: bool,
    words: TokenWords | None = None,
    step: str = "",
) -> ExitCode:
    """Name what was left out, write the report as `write_report` does, and say how to leave."""
    if exit_zero:
        report = replace(report, exit_code=int(ExitCode.CLEAN))
    for error in report.left_out:
        complain(str(error), hint=error.hint)
    write_report(report, form=form, files=files, color=color, quiet=quiet, words=words, step=step)
    return ExitCode(report.exit_code)


def write_documents(
    write: DocumentWriter,
    *,
    form: StrEnum,
    files: Iterable[OutputFile],
    color: ColorMode,
    quiet: bool,
) -> None:
    """Write a result to stdout and to every file, whichever of them fails.

    Raises:
        FileUnwritable: the system refused a file, or stdout has no room.
    """
    stdout = sys.stdout
    styled, width = is_styled(color, stdout), width_of(stdout)
    try:
        write(form, stdout, quiet=quiet, styled=styled, width=width)
    finally:
        for file in files:
            text = io.StringIO()
            write(file.form, text)
            _save(text.getvalue().encode("utf-8", errors="backslashreplace"), Path(file.path))


def _write(
    report: Report,
    form: str,
    stream: TextIO,
    *,
    words: TokenWords | None,
    step: str,
    quiet: bool = False,
    styled: bool = False,
    width: int | None = None,
) -> None:
    if form == OutputFormat.JSON:
        from kvaudit.render.json import write_json

        write_json(report, stream)
        return
    from kvaudit.render.text import write_text, write_verdict

    if quiet:
        write_verdict(report, stream, styled=styled, width=width)
    else:
        write_text(report, stream, words=words, step=step, styled=styled, width=width)


def _save(data: bytes, path: Path) -> None:
    """A file appears whole or not at all; a device or a pipe is written to as it is."""
    from kvaudit.formats.atomic_file import atomic_file

    with write_errors_translated(str(path)):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        with atomic_file(path) as file:
            file.write(data)
