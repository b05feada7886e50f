"""Verify plans into their file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from kvaudit.core.plan import PlanDump, PlannedLaunch
from kvaudit.errors import ValuesInvalid
from kvaudit.formats.arrow_writer import write_columns
from kvaudit.formats.schema import (
    INT64,
    PLAN_NULLABLE,
    FileKind,
)
from kvaudit.formats.trace_columns import tags_array, verify_arrays


def write_plan(
    path: str | os.PathLike[str],
    plan: PlanDump,
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write the verify half of plans with their digests, complete or not at all.

    Args:
        path: the file; an existing one is replaced. Mode 0600: tokens are prompts in clear.
        plan: what to write; every launch has a step.
        metadata: further metadata keys, without the `kvaudit.` prefix.

    Raises:
        FileUnwritable: the system refused.
        ValuesInvalid: a launch has no step, or a request's name is no text.
        SchemaMismatch: a metadata value is none that a reader accepts.
    """
    columns = _columns(plan.launches)
    write_columns(
        path,
        kind=FileKind.PLAN,
        key=plan.key,
        metadata=metadata or {},
        columns=columns,
        nullable=PLAN_NULLABLE,
    )


def _columns(launches: Sequence[PlannedLaunch]) -> dict[str, Any]:
    steps = []
    for row, launch in enumerate(launches):
        if launch.step is None:
            raise ValuesInvalid("the launch has no step", column="step", row=row)
        steps.append(launch.step)
    return {
        "step": pa.array(steps, type=INT64),
        "tags": tags_array([launch.tags for launch in launches]),
        **verify_arrays(launches),
    }
