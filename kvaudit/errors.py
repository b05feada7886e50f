"""Everything kvaudit raises. An exception means the audit could not be done.

    KvauditError
      InputError                a file or an argument array cannot be used
        FileUnreadable            missing, a folder, no permission, closed while read
        NotArrow                  not an Arrow IPC file, truncated, or compressed
        SchemaMismatch            a column or a metadata key is missing, mistyped or unknown in kind
        FormatVersionUnsupported  written by a newer kvaudit
        LimitExceeded             larger than the reader accepts
        ValuesInvalid             a null, a value out of its range, slots not ascending
        FileCorrupt               a chunk's digest differs: the file changed after it was written
        SnapshotInconsistent      parts that contradict each other, within a file or between files
        FileUnwritable            an output file: missing folder, no permission, disk full
        ModelNotApplicable        a model whose layer 0 is no function of token and position, or not known
      BackendError              a demanded backend cannot run
        BackendNotInstalled       a package is missing: the hint names the extra
        NoDevice                  no CUDA device, or no driver
        DeviceUnsupported         a device that the kernels do not run on
        DeviceFailed              the device failed in the middle
      ConfigError               contradicting or malformed options
      CanaryError               the alarm of a canary that runs beside an engine, a RuntimeError too
        CanaryStalledError        a launch that was due did not run
        CanaryViolationError      mode raise: violations were found
      InternalError             kvaudit's own self-check failed
        SelfCheckFailed           a planted bad entry was not caught
        ProofFailed               a benchmark's input gave two implementations two outcomes

A violation is data and never raised, but where an engine asked its canary to. Exit codes: `cli/exit_code.py`.
"""

from __future__ import annotations

from collections.abc import Sequence


class KvauditError(Exception):
    """Root of the tree.

    Args:
        message: what is wrong, one lower-case sentence naming file, column and row where known.
        hint: the next thing to try, one sentence.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            # Where a library's user meets the error: under its traceback.
            self.add_note(f"hint: {hint}")

    def __str__(self) -> str:
        return self.message


class InputError(KvauditError):
    """A file or an array cannot be used.

    Args:
        message: what is wrong, one lower-case sentence.
        hint: the next thing to try.
        path: the file, as the user wrote it; None when no file is concerned.
        column: the column's name; None when the whole file is concerned.
        row: the row's number from 0; None when the whole column is concerned.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        path: str | None = None,
        column: str | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.column = column
        self.row = row

    def __str__(self) -> str:
        places = [
            place
            for place in (
                self.path,
                f"column {self.column}" if self.column is not None else None,
                f"row {self.row}" if self.row is not None else None,
            )
            if place is not None
        ]
        return ": ".join([", ".join(places), self.message] if places else [self.message])

    def left_out_note(self, path: str) -> str:
        """What a report says beside a file that this error leaves out of the audit."""
        return f"not audited: {self.message if self.path == path else self}"


class FileUnreadable(InputError):
    """A file is missing, is not a file, may not be read, or went away while it was read."""


class NotArrow(InputError):
    """A file is not an uncompressed, complete Arrow IPC file."""


class SchemaMismatch(InputError):
    """A column or a metadata key is missing, has the wrong type, or names an unknown kind."""


class FormatVersionUnsupported(InputError):
    """A file carries a format version that this kvaudit does not read."""


class LimitExceeded(InputError):
    """A file is larger than its reader accepts."""


class ValuesInvalid(InputError):
    """A column holds a null or a value outside its range, or its order is wrong."""


class FileCorrupt(InputError):
    """A chunk's digest differs from the one written with it: the file itself changed."""


class SnapshotInconsistent(InputError):
    """Parts contradict each other, within one file or between files of one set."""


class FileUnwritable(InputError):
    """An output file cannot be written; nothing of it is left behind."""


class ModelNotApplicable(InputError):
    """Layer 0 of a model is no function of token and position, or what it computes is not known."""


class BackendError(KvauditError):
    """A demanded backend cannot run, or failed while it ran."""


class BackendNotInstalled(BackendError):
    """A package that the backend needs is missing."""


class NoDevice(BackendError):
    """There is no CUDA device, or no driver for it."""


class DeviceUnsupported(BackendError):
    """The device is too old for the kernels."""


class DeviceFailed(BackendError):
    """The device reported an error while a launch or a copy ran."""


class ConfigError(KvauditError):
    """Options contradict each other or cannot be parsed."""


class CanaryError(KvauditError, RuntimeError):
    """The alarm of a canary that runs beside an engine, in the engine's own process.

    Args:
        message: what is wrong.
        step: the step of the check that saw it.
        hint: the next thing to try.
    """

    def __init__(self, message: str, *, step: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.step = step


class CanaryStalledError(CanaryError):
    """Launches were due, and their counter did not move.

    Args:
        tags: names of the launch tags.
        step: the step of the check that saw it.
    """

    def __init__(self, tags: Sequence[str], *, step: int) -> None:
        # The engine's own words, which log parsers know.
        super().__init__(
            "kv-canary: kernel_run_counter did not increase since previous check for "
            f"tags=[{', '.join(tags)}] at step={step}; canary path is not executing",
            step=step,
            hint="look for the code path that left the launches of these tags out",
        )
        self.tags = tuple(tags)


class CanaryViolationError(CanaryError):
    """Violations were found, and the canary's mode is `raise`. The message is their log text."""


class InternalError(KvauditError):
    """kvaudit itself is wrong: never the fault of an input."""


class SelfCheckFailed(InternalError):
    """The kernels did not catch a planted bad entry, so no verdict of this run can be trusted."""


class ProofFailed(InternalError):
    """Two implementations disagree on the input of a benchmark, so none of its figures counts."""
