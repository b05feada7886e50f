"""The one try/except: whatever happens becomes one of the documented exit codes.

Python leaves with 1 on an unhandled exception, a failing import or a closed pipe, and 1 means
"violations" here. So every import of the program happens inside the try, and of what a command
gives back only an `ExitCode` is believed.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

# These must exist even when nothing can be imported; a test compares them with ExitCode.
INTERNAL = 70
INTERRUPTED = 130
CLOSED_PIPE = 141


def main() -> NoReturn:
    """Run the command line and leave."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code; never raises."""
    try:
        code = _answered(args)
    except BaseException as error:  # noqa: BLE001 - anything that got past would leave with 1
        code = CLOSED_PIPE if _is_closed_pipe(error) else INTERNAL
    _settle_streams()
    return code


def _answered(args: Sequence[str]) -> int:
    """Run one command line; a crash and Ctrl-C are explained, a closed pipe is raised."""
    try:
        from kvaudit.cli.streams import secure_streams

        secure_streams()
        return _dispatched(args)
    except KeyboardInterrupt:
        return _interrupted()
    except BaseException as error:
        if _is_closed_pipe(error):
            raise
        return _crashed(error)


def _dispatched(args: Sequence[str]) -> int:
    """Run one command line; errors of the tree and of the command line become their codes."""
    from typer import TyperException

    from kvaudit.cli.app import app
    from kvaudit.cli.exit_code import ExitCode, exit_code_of
    from kvaudit.cli.screen import complain
    from kvaudit.errors import KvauditError

    try:
        outcome = app(args=list(args), prog_name="kvaudit", standalone_mode=False)
        sys.stdout.flush()
    except KvauditError as error:
        code = exit_code_of(error)
        if code is ExitCode.INTERNAL:
            raise
        complain(str(error), hint=error.hint)
        return code
    except TyperException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "kvaudit")
        complain(error.format_message(), hint=f"try '{command} --help'")
        return ExitCode.USAGE
    if isinstance(outcome, ExitCode):
        return outcome
    # Typer answers --help with a plain 0 and Ctrl-C with a plain 130.
    if outcome == 0:
        return ExitCode.CLEAN
    if outcome == INTERRUPTED:
        raise KeyboardInterrupt
    message = f"a command gave back {outcome!r}, which is no exit code"
    raise TypeError(message)


def _crashed(error: BaseException) -> int:
    import traceback

    _say("".join(traceback.format_exception(error)).rstrip())
    _say(f"kvaudit: internal error: {type(error).__name__}: {error}")
    _say("  hint: the fault is kvaudit's, not your files'; please report it with the lines above")
    return INTERNAL


def _interrupted() -> int:
    _say("kvaudit: interrupted")
    return INTERRUPTED


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _is_closed_pipe(error: BaseException) -> bool:
    """Whether a reader went away. Typer turns that into SystemExit(1) with the cause behind it."""
    cause = error.__context__ if isinstance(error, SystemExit) else error
    return isinstance(cause, OSError) and cause.errno == errno.EPIPE


def _settle_streams() -> None:
    """Drop what a stream cannot take: Python's own flush at exit would change the code."""
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001 - why it was refused has been said
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
