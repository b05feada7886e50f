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
from kvaudit.formats.arrow_writer import list_array, write_arrow
from kvaudit.formats.pairing_key import key_metadata
from kvaudit.formats.schema import (
    BOOL,
    INT32,
    INT64,
    KEY_PREFIX,
    STRING_LIST,
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
        ValuesInvalid: a launch has no step.
    """
    columns = _columns(plan.launches)
    full = {KEY_PREFIX + key: value for key, value in (metadata or {}).items()}
    full.update(key_metadata(plan.key))
    write_arrow(
        path,
        kind=FileKind.PLAN,
        fields=[
            pa.field(name, array.type, nullable=name in ("tags", "verify_request_ids"))
            for name, array in columns.items()
        ],
        metadata=full,
        num_rows=len(plan.launches),
        batches=[list(columns.values())],
    )


def _columns(launches: Sequence[PlannedLaunch]) -> dict[str, Any]:
    steps = []
    for row, launch in enumerate(launches):
        if launch.step is None:
            raise ValuesInvalid("the launch has no step", column="step", row=row)
        steps.append(launch.step)
    columns = {
        "step": pa.array(steps, type=INT64),
        "tags": pa.array(
            [
                None if launch.tags is None else [tag.name for tag in launch.tags]
                for launch in launches
            ],
            type=STRING_LIST,
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
    columns["verify_request_ids"] = pa.array(
        [None if launch.request_ids is None else list(launch.request_ids) for launch in launches],
        type=STRING_LIST,
    )
    return columns


_NO_ENTRIES = np.zeros(0, dtype=np.int64)


def _offsets(lists: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)
