"""The command that comes after a report with violations: blame, of the slot to begin with."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from kvaudit.constants import FailReason
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.report import InputFile, Report
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import PoolKey

# Their slots are not all slots of the pool.
_OF_TABLES = ("KV102", "KV104")


def blame_step(report: Report, *, carried: Sequence[str] = ()) -> str:
    """`kvaudit blame dumps/target.snapshot.arrow 873`; "" where no slot of a snapshot is wrong.

    The first slot of the first finding, which explains most, else that of the first row.

    Args:
        report: the report.
        carried: options of the run that gave it, without which blame would not see the same.
    """
    for key, slot in _wrong_slots(report):
        for file in report.inputs:
            if file.kind == "snapshot" and _whole_key(file) == key.given():
                return shlex.join(["kvaudit", "blame", file.path, str(slot), *carried])
    return ""


def _wrong_slots(report: Report) -> Iterator[tuple[PoolKey, int]]:
    """A slot of each error, then of each row, that is in its pool."""
    for finding in report.findings:
        if finding.severity is Severity.ERROR and finding.rule not in _OF_TABLES:
            for slot in finding.slots[:1]:
                yield finding.key, slot
    for row in report.violations:
        if not row.reasons & FailReason.SLOT_OUT_OF_RANGE:
            yield row.key, row.slot


def _whole_key(file: InputFile) -> dict[str, str | int]:
    """The parts of a file's key, defaults included."""
    kind = file.key.get("pool_kind", str(PoolKind.FULL))
    return {"pool_kind": kind, "pool": kind, **file.key}
