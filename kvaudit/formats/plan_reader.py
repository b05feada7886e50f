"""A plan file as a `PlanDump`: the verify half of every row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.plan import PlanDump, PlannedLaunch, VerifyPlan
from kvaudit.formats.arrow_file import ArrowFile
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.rows import IntegerLists, RowReader
from kvaudit.formats.schema import (
    PLAN_NULLABLE,
    PLAN_OPTIONAL,
    PLAN_REQUIRED,
    PLAN_UNREAD,
    VERIFY_LISTS,
)


def read_plan(file: ArrowFile) -> tuple[PlanDump, dict[str, str | int], list[str]]:
    """The plans, the given parts of their pairing key, and notes for the report.

    A num_valid below 0 or past the lists is legal: the launch clamps it.

    Raises:
        SchemaMismatch: a column or key is missing, malformed or of another type.
        ValuesInvalid: a null, lists of different lengths, or an unknown tag.
        LimitExceeded: too many rows or too much text.
        FileCorrupt: a digest differs.
    """
    rows = RowReader(file, PLAN_REQUIRED, PLAN_OPTIONAL, nullable=PLAN_NULLABLE, unread=PLAN_UNREAD)
    key, given = MetadataValues(file.metadata, file.path).pool_key()
    lists = {name: rows.integer_lists(name) for name in VERIFY_LISTS}
    _refuse_uneven(rows, lists)
    offsets = lists[VERIFY_LISTS[0]].offsets.tolist()
    steps = rows.integers("step", np.int64)
    num_valid = rows.integers("verify_num_valid", np.int32)
    enable = rows.integers("enable", np.int32)
    check_tokens = rows.flags("check_verify_expected_token")
    tags = _tags(rows)
    request_ids = rows.text_lists("verify_request_ids")
    _refuse_unnamed(rows, request_ids, num_valid=num_valid, capacities=np.diff(offsets))
    launches = []
    for row in range(rows.num_rows):
        entries = slice(offsets[row], offsets[row + 1])
        launches.append(
            PlannedLaunch(
                step=int(steps[row]),
                tags=tags[row],
                plan=VerifyPlan(
                    **{name: lists[name].values[entries] for name in VERIFY_LISTS},
                    num_valid=int(num_valid[row]),
                    enable=bool(enable[row]),
                ),
                check_verify_expected_token=bool(check_tokens[row]),
                request_ids=request_ids[row],
            )
        )
    return PlanDump(path=file.path, key=key, launches=launches), given, rows.notes


def _refuse_uneven(rows: RowReader, lists: dict[str, IntegerLists]) -> None:
    first = VERIFY_LISTS[0]
    for name in VERIFY_LISTS[1:]:
        uneven = np.flatnonzero(np.diff(lists[name].offsets) != np.diff(lists[first].offsets))
        if uneven.size:
            raise rows.invalid(
                f"the list is not as long as {first}",
                column=name,
                row=int(uneven[0]),
                hint="write all lists of VerifyPlan with the plan's capacity",
            )


def _refuse_unnamed(
    rows: RowReader,
    request_ids: list[list[str] | None],
    *,
    num_valid: NDArray[np.int32],
    capacities: NDArray[np.int64],
) -> None:
    """Refuse a row that names the requests of some active entries and not of others."""
    active = np.clip(num_valid, 0, capacities).tolist()
    for row, names in enumerate(request_ids):
        if names is not None and len(names) < active[row]:
            raise rows.invalid(
                f"{len(names)} names for {active[row]} active entries",
                column="verify_request_ids",
                row=row,
                hint="name the request of every active entry, or write null",
            )


def _tags(rows: RowReader) -> list[tuple[LaunchTag, ...] | None]:
    """The launches of each row: `tags`, else `tag`, else not said."""
    column = "tags" if rows.has("tags") else "tag"
    words: list[list[str] | None]
    if column == "tags":
        words = rows.text_lists(column)
    else:
        words = [None if tag is None else [tag] for tag in rows.optional_texts(column)]
    tags: list[tuple[LaunchTag, ...] | None] = []
    for row, names in enumerate(words):
        unknown = [name for name in names or () if name not in LaunchTag.__members__]
        if unknown:
            raise rows.invalid(
                f"there is no launch tag {unknown[0][:80]!r}",
                column=column,
                row=row,
                hint=f"write {LaunchTag.HEAD_K_FULL.name} to {LaunchTag.SWEEP_V_SWA.name}",
            )
        tags.append(None if names is None else tuple(sorted({LaunchTag[name] for name in names})))
    return tags
