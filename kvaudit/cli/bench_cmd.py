"""`kvaudit bench`: how fast the kernels are here, each figure proved before it is taken."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import Backend, BackendName, Color, ColorMode, Output

if TYPE_CHECKING:
    from kvaudit.core.bench_report import BenchReport


class BenchFormat(StrEnum):
    """How a benchmark's result is written."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


Sizes = Annotated[
    str,
    typer.Option(
        metavar="N,N",
        envvar="KVAUDIT_SIZES",
        help="Entries of each run: slots folded, entries checked; k, m and g are powers of 1024.",
    ),
]
BytesPerToken = Annotated[
    int,
    typer.Option(
        metavar="N",
        envvar="KVAUDIT_BYTES_PER_TOKEN",
        help="KV bytes of a slot and layer, a multiple of 16.",
    ),
]
Layers = Annotated[
    int,
    typer.Option(
        metavar="N",
        envvar="KVAUDIT_LAYERS",
        help="Layers of the pool, side by side in each slot: file and dump take all of them, a "
        "launch reads the first.",
    ),
]
Ops = Annotated[
    str,
    typer.Option(
        metavar="OP,OP",
        envvar="KVAUDIT_OP",
        help="What to measure: the launches fold, verify, write and plan; storm, a verify of which "
        "every entry fails; file, from the map of a snapshot in the page cache to the verdict; "
        "dump, a pool's digests from the call to the files.",
    ),
]
RealKvModes = Annotated[
    str,
    typer.Option(
        metavar="MODE,MODE",
        envvar="KVAUDIT_REAL_KV",
        help="How much of a slot fold, verify and write read: none, partial (16 bytes) or all.",
    ),
]
PageSize = Annotated[
    int, typer.Option(metavar="N", envvar="KVAUDIT_PAGE_SIZE", help="Slots a page.")
]
RequestTokens = Annotated[
    int,
    typer.Option(
        metavar="N",
        envvar="KVAUDIT_REQUEST_TOKENS",
        help="Tokens of a request, whole pages of them: the length of a chain.",
    ),
]
Repeats = Annotated[
    int,
    typer.Option(
        metavar="N", envvar="KVAUDIT_REPEATS", help="How often each is timed; the median is shown."
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N", envvar="KVAUDIT_SEED", help="Of tokens, bytes and the order of pages."
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        envvar="KVAUDIT_QUIET",
        help="No progress, and of the text only the table.",
    ),
]
Format = Annotated[
    BenchFormat, typer.Option(envvar="KVAUDIT_FORMAT", help="How stdout is written.")
]


def bench(
    *,
    sizes: Sizes = "64k,1m",
    bytes_per_token: BytesPerToken = 1024,
    layers: Layers = 1,
    op: Ops = "fold,verify,write,plan",
    real_kv: RealKvModes = "none,all",
    page_size: PageSize = 16,
    request_tokens: RequestTokens = 32768,
    repeats: Repeats = 7,
    seed: Seed = 0,
    backend: Backend = BackendName.AUTO,
    format: Format = BenchFormat.TEXT,  # noqa: A002 - the option's name
    output: Output = None,
    quiet: Quiet = False,
    color: Color = ColorMode.AUTO,
) -> ExitCode:
    """Measure the kernels here: each is proved on the very input that is then timed.

    A launch is compared with the CPU's kernels on all of its input and with the reference on all of
    it or on a sample, damage included, and shown as a fraction of the bandwidth measured in the same
    run; on a device also against a launch in an engine's own shape. A failed proof leaves with 70.
    """
    from kvaudit import api
    from kvaudit.bench.options import BenchOptions, Op, RealKv, parse_sizes, parse_words
    from kvaudit.cli.output import output_files, write_documents
    from kvaudit.cli.screen import progress

    options = BenchOptions(
        ops=parse_words(op, "op", Op),
        sizes=parse_sizes(sizes),
        real_kv=parse_words(real_kv, "real-kv", RealKv),
        bytes_per_token=bytes_per_token,
        layers=layers,
        page_size=page_size,
        request_tokens=request_tokens,
        repeats=repeats,
        seed=seed,
    )
    files = output_files(output, inputs=(), forms=BenchFormat)
    with progress(quiet=quiet) as observer:
        report = api.bench(options, backend=backend, observer=observer)
    write_documents(partial(_write, report), form=format, files=files, color=color, quiet=quiet)
    return ExitCode.CLEAN


def _write(
    report: BenchReport,
    form: str,
    stream: TextIO,
    *,
    quiet: bool = False,
    styled: bool = False,
    width: int | None = None,
) -> None:
    if form == BenchFormat.JSON:
        from kvaudit.render.json import write_json

        write_json(report, stream)
    elif form == BenchFormat.HTML:
        from kvaudit.render.bench_html import write_bench_html

        write_bench_html(report, stream)
    else:
        from kvaudit.render.bench_text import write_bench_rows, write_bench_text

        write = write_bench_rows if quiet else write_bench_text
        write(report, stream, styled=styled, width=width)
