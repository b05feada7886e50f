"""`kvaudit learn`: what layer 0 holds of each token, from dumps or from a model's weights."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import Backend, BackendName, Expect
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    from kvaudit.core.layer0_table import Layer0Table

DEFAULT_NAME: Final = "layer0.table.arrow"
_MODEL_SUFFIXES: Final = (".json", ".safetensors")


class TableType(StrEnum):
    """The types that a model computes in."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


class KLayout(StrEnum):
    """Which elements of a head turn together."""

    HALF = "half"
    INTERLEAVED = "interleaved"


Dumps = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DUMP",
        help="Dumps of one model and rank, with their sequences and the bytes of layer 0; a folder "
        "stands for its files.",
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        envvar="KVAUDIT_TABLE",
        help="Where the table goes; an existing one is replaced.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|GGUF",
        envvar="KVAUDIT_MODEL",
        help="Learn from weights instead: a folder with config.json and safetensors, or a .gguf "
        "file. Nothing is run.",
    ),
]
DType = Annotated[
    TableType | None,
    typer.Option(
        envvar="KVAUDIT_DTYPE",
        help="Of a model: the type that the engine computes in. Default: that of the weights.",
    ),
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        metavar="TOKENS",
        min=1,
        envvar="KVAUDIT_MAX_LENGTH",
        help="Of a model: the longest sequence that the engine allows. Dynamic and longrope RoPE "
        "scale by it.",
    ),
]
Layout = Annotated[
    KLayout | None,
    typer.Option(
        "--rope-layout",
        envvar="KVAUDIT_ROPE_LAYOUT",
        help="Of a model: which elements of a head the engine turns together, where it keeps K "
        "otherwise than the makers, as llama.cpp does (interleaved).",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", envvar="KVAUDIT_QUIET", help="No progress, and no word on the table."
    ),
]


def learn(
    dumps: Dumps = None,
    *,
    model: Model = None,
    output: Output = DEFAULT_NAME,
    expect: Expect = None,
    dtype: DType = None,
    max_length: MaxLength = None,
    rope_layout: Layout = None,
    backend: Backend = BackendName.AUTO,
    quiet: Quiet = False,
) -> ExitCode:
    """Learn what layer 0 holds of each token: a table that verify --layer0 judges dumps by.

    From dumps, a token's row is what most of its slots hold, so learn from dumps that are sound.
    From a model's weights it is what the embedding, the first norm and the projections give; no
    forward pass is run, and every token is known. A model whose layer 0 depends on more than token
    and position is refused with the reason.
    """
    from kvaudit.cli.output import check_target

    if (model is None) == (not dumps):
        raise ConfigError(
            "give dumps or --model, one of the two",
            hint="kvaudit learn DUMP... -o FILE, or kvaudit learn --model DIR -o FILE",
        )
    if model is None and (dtype or max_length or rope_layout):
        raise ConfigError(
            "--dtype, --max-length and --rope-layout are of a model",
            hint="give --model, or leave them out",
        )
    check_target(output, inputs=_files_of_model(model))
    table = (
        _from_dumps(dumps or [], expect, output=output, backend=backend, quiet=quiet)
        if model is None
        else _from_model(model, dtype, max_length=max_length, rope_layout=rope_layout, quiet=quiet)
    )
    _write(table, output, quiet=quiet)
    return ExitCode.CLEAN


def _from_dumps(
    dumps: list[str],
    expect: list[str] | None,
    *,
    output: str,
    backend: BackendName,
    quiet: bool,
) -> Layer0Table:
    from kvaudit import api
    from kvaudit.cli.output import check_target
    from kvaudit.cli.screen import progress

    with progress(quiet=quiet) as observer:
        dataset = api.open(dumps, expect=tuple(expect or ()))
        check_target(output, inputs=[file.path for file in dataset.files])
        return api.learn(dataset, backend=backend, observer=observer)


def _files_of_model(model: str | None) -> list[str]:
    """The files that a model may be read from; [] without one."""
    if model is None:
        return []
    folder = Path(model)
    if not folder.is_dir():
        return [model]
    return [str(file) for suffix in _MODEL_SUFFIXES for file in folder.glob(f"*{suffix}")]


def _from_model(
    model: str,
    dtype: TableType | None,
    *,
    max_length: int | None,
    rope_layout: KLayout | None,
    quiet: bool,
) -> Layer0Table:
    from kvaudit import api
    from kvaudit.cli.screen import progress

    with progress(quiet=quiet) as observer:
        return api.learn_model(
            model,
            dtype=dtype,
            max_length=max_length,
            rope_layout=rope_layout,
            observer=observer,
        )


def _write(table: Layer0Table, output: str, *, quiet: bool) -> None:
    """Write the table, its path to stdout, and what it knows to stderr."""
    from kvaudit.cli.screen import say
    from kvaudit.formats.table_writer import write_table
    from kvaudit.render.printable import printable
    from kvaudit.render.table_facts import table_facts

    write_table(output, table)
    sys.stdout.write(f"{printable(output)}\n")
    if not quiet:
        facts: dict[str, Any] = table_facts(table)
        say(f"kvaudit: tokens: {facts['tokens']}; {_halves_word(table)}")
    if table.note:
        say(f"kvaudit: positions are not judged by this table: {printable(table.note)}")


def _halves_word(table: Layer0Table) -> str:
    halves = [name for name, rows in (("K", table.k0), ("V", table.v0)) if rows is not None]
    rotation = "its rotation known" if table.rope is not None else "its rotation not known"
    return f"{' and '.join(halves)} of layer 0" + (f", {rotation}" if "K" in halves else "")
