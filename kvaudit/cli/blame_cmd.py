"""`kvaudit blame`: everything known of one slot."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import (
    Backend,
    BackendName,
    Color,
    ColorMode,
    Expect,
    Format,
    Layer0Rows,
    OutputFormat,
    Tokenizer,
    layer0_source,
)

Dump = Annotated[
    str,
    typer.Argument(
        metavar="FILE|DIR",
        help="A snapshot; its sequences and plans are found beside it. Or a folder with one.",
    ),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="SLOT|REQUEST@POS",
        help="A slot in the engine's numbering, as 873, or a request and a position, as tale@9.",
    ),
]
SkipBytes = Annotated[
    bool,
    typer.Option(
        "--skip-bytes",
        envvar="KVAUDIT_SKIP_BYTES",
        help="Look for findings without the pool's bytes, which saves reading them all; those of the "
        "slot are compared in any case.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", envvar="KVAUDIT_QUIET", help="No progress.")]


def blame(
    dump: Dump,
    target: Target,
    *,
    expect: Expect = None,
    skip_bytes: SkipBytes = False,
    layer0: Layer0Rows = "auto",
    tokenizer: Tokenizer = None,
    backend: Backend = BackendName.AUTO,
    format: Format = OutputFormat.TEXT,  # noqa: A002 - the option's name
    quiet: Quiet = False,
    color: Color = ColorMode.AUTO,
) -> ExitCode:
    """Say everything that is known of one slot: what it holds, what it should hold, and whose it is.

    Its failed rows and the findings that name it, as verify gives them; what each request, cached
    prefix or plan entry expects of it; its records and the stamped, dumped and recomputed digests of
    its KV columns; the first words that differ; the slots with the same content; those before and
    behind it in the pool and in its chains; and what the allocator says. What cannot be compared is
    said, too. A verdict is verify's: the exit code is 0.
    """
    from kvaudit import api
    from kvaudit.cli.carried_options import carried_options
    from kvaudit.cli.screen import progress, write_document
    from kvaudit.core.audit_options import AuditOptions
    from kvaudit.importers.tokenizer_file import read_tokenizer
    from kvaudit.render.blame_report import blame_lines

    options = AuditOptions(skip_bytes=skip_bytes, layer0=layer0_source(layer0))
    words = None if tokenizer is None else read_tokenizer(tokenizer)
    with progress(quiet=quiet) as observer:
        dataset = api.open([dump], expect=tuple(expect or ()))
        report = api.blame(dataset, target, backend=backend, options=options, observer=observer)
    carried = carried_options(expect=expect, layer0=layer0, tokenizer=tokenizer)
    call = shlex.join(["kvaudit", "blame", report.path, *carried])
    lines = blame_lines(report, call=call, words=words)
    write_document(report.to_dict(), lines, form=format, color=color)
    return ExitCode.CLEAN
