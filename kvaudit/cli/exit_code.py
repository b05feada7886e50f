"""What the process leaves with (DESIGN.md 5)."""

from __future__ import annotations

from enum import IntEnum

from kvaudit.errors import (
    BackendError,
    CanaryError,
    ConfigError,
    InputError,
    InternalError,
    KvauditError,
)


class ExitCode(IntEnum):
    """Stable numbers: scripts and CI rely on them."""

    CLEAN = 0
    """All that was required was checked, and nothing failed."""
    VIOLATIONS = 1
    """A row failed, or a finding at or above --fail-on: only a Report says so."""
    USAGE = 2
    """The command line cannot be understood, or contradicts itself."""
    INPUT = 3
    """A file cannot be read or is invalid, or an output cannot be written."""
    BACKEND = 4
    """A demanded backend cannot run, or the device failed."""
    INCOMPLETE = 5
    """A required family was not covered, or nothing was checked."""
    INTERNAL = 70
    """kvaudit itself failed."""
    INTERRUPTED = 130
    """Ctrl-C."""
    CLOSED_PIPE = 141
    """Whoever read the output went away."""


BRANCHES: dict[type[KvauditError], ExitCode] = {
    InputError: ExitCode.INPUT,
    BackendError: ExitCode.BACKEND,
    ConfigError: ExitCode.USAGE,
    # It belongs to an engine's process: a command that lets it pass is wrong.
    CanaryError: ExitCode.INTERNAL,
    InternalError: ExitCode.INTERNAL,
}


def exit_code_of(error: KvauditError) -> ExitCode:
    """The code of an error's branch of the tree; INTERNAL for one outside every branch."""
    for branch, code in BRANCHES.items():
        if isinstance(error, branch):
            return code
    return ExitCode.INTERNAL
