"""The command line: `kvaudit COMMAND`, its groups of help, and nothing that is slow to import."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kvaudit import __version__
from kvaudit.cli.bench_cmd import bench
from kvaudit.cli.blame_cmd import blame
from kvaudit.cli.diff_cmd import HELP as DIFF_HELP
from kvaudit.cli.diff_cmd import diff
from kvaudit.cli.doctor_cmd import doctor
from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.explain_cmd import explain
from kvaudit.cli.inject_cmd import inject
from kvaudit.cli.learn_cmd import learn
from kvaudit.cli.replay_cmd import replay
from kvaudit.cli.show_cmd import show
from kvaudit.cli.stamp_cmd import stamp
from kvaudit.cli.verify_cmd import HELP as VERIFY_HELP
from kvaudit.cli.verify_cmd import verify

CHECK = "Check"
CAPTURE = "Capture"
ADVANCED = "Advanced"


class GroupedCommands(TyperGroup):
    """Lists the commands under their groups, in plain text."""

    # Typer vendors Click: the types of these two have no public name.
    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write one section a group, in the order in which the commands were added."""
        commands = [self.commands[name] for name in self.list_commands(ctx)]
        for title in (CHECK, CAPTURE, ADVANCED):
            rows = [
                (command.name, command.get_short_help_str(limit=100))
                for command in commands
                if getattr(command, "rich_help_panel", None) == title
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=GroupedCommands,
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def kvaudit(
    ctx: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> ExitCode | None:
    """Audit the KV caches of LLM inference engines.

    An engine dumps what its KV pool holds and what it should hold; kvaudit re-derives one from the
    other, says which slots are wrong, whose they are, and what was not checked.
    """
    if version:
        typer.echo(f"kvaudit {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), file=sys.stderr)
        return ExitCode.USAGE
    return None


app.command(rich_help_panel=CHECK, help=VERIFY_HELP)(verify)
app.command(rich_help_panel=CHECK, help=DIFF_HELP)(diff)
app.command(rich_help_panel=CHECK)(blame)
app.command(rich_help_panel=CHECK)(explain)
app.command(rich_help_panel=CHECK)(show)
app.command(rich_help_panel=CAPTURE)(stamp)
app.command(rich_help_panel=ADVANCED)(learn)
app.command(rich_help_panel=ADVANCED)(replay)
app.command(rich_help_panel=ADVANCED)(inject)
app.command(rich_help_panel=ADVANCED)(bench)
app.command(rich_help_panel=ADVANCED)(doctor)
