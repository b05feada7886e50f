"""Verify plans into their file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.core.plan import PlanDump, PlannedLaunch
from kvaudit.errors import ValuesInvalid
from kvaudit.formats.arrow_writer import list_array, text_list_array, write_columns
from kvaudit.formats.schema import (
    BOOL,
    INT32,
    INT64,
    PLAN_NULLABLE,
    VERIFY_LISTS,
    FileKind,
)


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
    columns = {
        "step": pa.array(steps, type=INT64),
        "tags": text_list_array(
            "tags",
            [
                None if launch.tags is None else [tag.name for tag in launch.tags]
                for launch in launches
            ],
        ),
    }
    for name in VERIFY_LISTS:
        lists = [getattr(launch.plan, name) for launch in launches]
        columns[name] = list_array(_offsets(lists), np.concatenate([_NO_ENTRIES, *lists]))
    columns["verify_num_valid"] = pa.array([launch.plan.num_valid for launch in launches], INT32)
    columns["enable"] = pa.array([int(launch.plan.enable) for launch in launches], INT32)
    columns["check_verify_expected_token"] = pa.array(
        [launch.check_verify_expected_token for launch in launches], BOOL
    )
    columns["verify_request_ids"] = text_list_array(
        "verify_request_ids", [launch.request_ids for launch in launches]
    )
    return columns


_NO_ENTRIES = np.zeros(0, dtype=np.int64)


def _offsets(lists: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)
