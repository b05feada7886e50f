"""A plan file as a `PlanDump`: the verify half of every row that has one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.plan import PlanDump, PlannedLaunch, VerifyPlan
from kvaudit.formats.arrow_file import ArrowFile
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.rows import IntegerLists, RowReader, Rows
from kvaudit.formats.schema import (
    PLAN_NULLABLE,
    PLAN_OPTIONAL,
    PLAN_REQUIRED,
    TRACE_COLUMNS,
    VERIFY_COLUMNS,
    VERIFY_LISTS,
)

_DERIVED: Final = "rows of a trace say what was written, and not what was checked"


def read_plan(file: ArrowFile) -> tuple[PlanDump, dict[str, str | int], list[str]]:
    """The plans, the given parts of their pairing key, and notes for the report.

    A num_valid below 0 or past the lists is legal: the launch clamps it.

    Raises:
        SchemaMismatch: a column or key is missing, malformed or of another type.
        ValuesInvalid: a null, lists of different lengths, or an unknown tag.
        LimitExceeded: too many rows or too much text.
        FileCorrupt: a digest differs.
    """
    rows = RowReader(
        file, PLAN_REQUIRED, PLAN_OPTIONAL, nullable=PLAN_NULLABLE, unread=TRACE_COLUMNS
    )
    key, given = MetadataValues(file.metadata, file.path).pool_key()
    launches = [launch for launch in planned_launches(rows) if launch is not None]
    num_derived = rows.num_rows - len(launches)
    notes = [*rows.notes, *([f"{num_derived} {_DERIVED}"] if num_derived else [])]
    dump = PlanDump(path=file.path, key=key, launches=launches, num_derived=num_derived)
    return dump, given, notes


def planned_launches(rows: Rows) -> list[PlannedLaunch | None]:
    """The verify half of each row; None where it is null.

    Raises:
        ValuesInvalid: a half is null in part, lists have different lengths, or a tag is unknown.
        LimitExceeded: too much text.
    """
    is_given = whole_parts(rows, VERIFY_COLUMNS).tolist()
    lists = {name: rows.integer_lists(name) for name in VERIFY_LISTS}
    refuse_uneven(rows, lists, hint="write all lists of VerifyPlan with the plan's capacity")
    offsets = lists[VERIFY_LISTS[0]].offsets.tolist()
    steps = rows.integers("step", np.int64).tolist()
    num_valid = rows.integers("verify_num_valid", np.int32)
    enable = rows.integers("enable", np.int32).tolist()
    check_tokens = rows.flags("check_verify_expected_token").tolist()
    tags = launch_tags(rows)
    request_ids = rows.text_lists("verify_request_ids")
    active = np.clip(num_valid, 0, np.diff(offsets))
    refuse_unnamed(rows, "verify_request_ids", request_ids, num_named=active.tolist())
    launches: list[PlannedLaunch | None] = []
    for row in range(rows.num_rows):
        if not is_given[row]:
            launches.append(None)
            continue
        entries = slice(offsets[row], offsets[row + 1])
        launches.append(
            PlannedLaunch(
                step=steps[row],
                tags=tags[row],
                plan=VerifyPlan(
                    **{name: lists[name].values[entries] for name in VERIFY_LISTS},
                    num_valid=int(num_valid[row]),
                    enable=bool(enable[row]),
                ),
                check_verify_expected_token=check_tokens[row],
                request_ids=request_ids[row],
            )
        )
    return launches


def whole_parts(rows: Rows, names: Collection[str]) -> NDArray[np.bool_]:
    """Which rows have these columns, shape [num_rows], bool: all of them or none.

    Raises:
        ValuesInvalid: a row has some of them.
    """
    given = {name: rows.is_given(name) for name in names}
    has_any: NDArray[np.bool_] = np.logical_or.reduce(list(given.values()))
    for name, is_given in given.items():
        torn = np.flatnonzero(has_any & ~is_given)
        if torn.size:
            beside = next(other for other in names if given[other][torn[0]])
            raise rows.invalid(
                f"it is null, and {beside} is not",
                column=name,
                row=int(torn[0]),
                hint=f"write all of {', '.join(names)}, or none",
            )
    return has_any


def refuse_uneven(rows: Rows, lists: Mapping[str, IntegerLists], *, hint: str) -> None:
    """Refuse a row whose lists have different lengths.

    Raises:
        ValuesInvalid: there is one.
    """
    first, *others = lists
    for name in others:
        uneven = np.flatnonzero(np.diff(lists[name].offsets) != np.diff(lists[first].offsets))
        if uneven.size:
            raise rows.invalid(
                f"the list is not as long as {first}", column=name, row=int(uneven[0]), hint=hint
            )


def refuse_unnamed(
    rows: Rows, column: str, request_ids: Sequence[Sequence[str] | None], *, num_named: list[int]
) -> None:
    """Refuse a row that names the requests of some active entries and not of others.

    Raises:
        ValuesInvalid: there is one.
    """
    for row, names in enumerate(request_ids):
        if names is not None and len(names) < num_named[row]:
            raise rows.invalid(
                f"{len(names)} names for {num_named[row]} active entries",
                column=column,
                row=row,
                hint="name the request of every active entry, or write null",
            )


def launch_tags(rows: Rows) -> list[tuple[LaunchTag, ...] | None]:
    """The launches of each row: `tags`, else `tag`; None where neither says so.

    Raises:
        ValuesInvalid: a tag is unknown.
        LimitExceeded: too much text.
    """
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
