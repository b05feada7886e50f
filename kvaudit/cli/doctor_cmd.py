"""`kvaudit doctor`: what is installed here, and whether it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import Backend, BackendName, Color, ColorMode, Format, OutputFormat
from kvaudit.cli.screen import progress, write_facts

if TYPE_CHECKING:
    from kvaudit.runner.self_test import SelfTestRow

PACKAGES = ("numpy", "numba", "numba-cuda", "pyarrow", "xxhash", "torch", "transformers")

SelfTest = Annotated[
    bool,
    typer.Option(
        "--self-test",
        envvar="KVAUDIT_SELF_TEST",
        help="Also put every fault class into a small pool and prove that an audit here names it.",
    ),
]


def doctor(
    *,
    self_test: SelfTest = False,
    backend: Backend = BackendName.AUTO,
    format: Format = OutputFormat.TEXT,  # noqa: A002 - the option's name
    color: Color = ColorMode.AUTO,
) -> ExitCode:
    """Say what is installed, which backends can run, and whether the kernels catch damage.

    With --backend, that backend must run: the exit code is 4 when it cannot. With --self-test, every
    fault class of `kvaudit inject` must be named by its rule, with its slots and requests: the exit
    code is 70 when one is not.
    """
    from kvaudit.backends.availability import choose, survey
    from kvaudit.kernels.row_threads import num_threads
    from kvaudit.runner.self_check import prepare

    facts: dict[str, Any] = {
        **_versions(),
        "backends": {
            found.name: found.device if found.usable else f"cannot run: {found.reason}"
            for found in survey()
        },
        "threads": num_threads(),
        "kernel_cache": _cache_folder(),
    }
    tested: list[SelfTestRow] = []
    try:
        runs, choice = choose(backend, kv_bytes=0, num_entries=0)
        with progress(quiet=False) as observer:
            facts["self_check"] = f"{prepare(runs, observer)} on {choice.name}"
            if self_test:
                from kvaudit.runner.self_test import self_test as run_self_test

                tested = run_self_test(runs, choice, observer=observer)
                facts["self_test"] = [row.to_dict() for row in tested]
    finally:
        write_facts(facts, form=format, color=color)
    return ExitCode.INTERNAL if any(row.problem for row in tested) else ExitCode.CLEAN


def _versions() -> dict[str, str]:
    import platform
    from importlib import metadata

    from kvaudit import __version__

    versions = {"kvaudit": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _cache_folder() -> str | None:
    """The folder below which all compiled CPU kernels are kept; None where there are none."""
    import os

    try:
        from kvaudit.backends.cpu import KERNELS
        from kvaudit.kernels.compilation import cache_folder
    except ImportError:
        return None
    folders = [cache_folder(kernel) for kernel in KERNELS]
    if None in folders:
        return "none can be written to: every run compiles anew; set NUMBA_CACHE_DIR to one"
    return os.path.commonpath([folder for folder in folders if folder])
