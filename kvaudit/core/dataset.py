"""What an audit is given: pools, each with what it is expected to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvaudit.core.plan import PlanDump
from kvaudit.core.report import InputFile
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditedPool:
    """A snapshot and its expectations.

    Fields:
        snapshot: the pool.
        sequences: sequence files that name its slots.
        plans: plan files made for it.
    """

    snapshot: Snapshot
    sequences: Sequence[Sequences] = ()
    plans: Sequence[PlanDump] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataset:
    """The files of one run, paired.

    Fields:
        pools: the snapshots with their expectations, in input order.
        files: every file read, in input order, then those left out.
        left_out: why pools or files of the run cannot be used; it is whole when empty.
    """

    pools: Sequence[AuditedPool]
    files: Sequence[InputFile] = ()
    left_out: Sequence[InputError] = ()
