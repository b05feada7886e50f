"""A state file as a `CanaryState`: the ring's rows, and the counters of its metadata."""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from kvaudit.constants import LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.formats.arrow_file import ArrowFile
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.rows import RowReader
from kvaudit.formats.schema import RING_COLUMNS, TAG_COUNTS

_TAGS_HINT: Final = f"{LaunchTag.HEAD_K_FULL.name} to {LaunchTag.SWEEP_V_SWA.name}"
_MAX_COUNT: Final = np.iinfo(np.int64).max


def read_state(file: ArrowFile) -> tuple[CanaryState, dict[str, str | int], list[str]]:
    """The state, the given parts of its pairing key, and notes for the report.

    Raises:
        SchemaMismatch: a column or key is missing, malformed or of another type.
        ValuesInvalid: a null, or more or fewer rows than the ring stored.
        LimitExceeded: too many rows.
        FileCorrupt: a digest differs.
    """
    rows = RowReader(file, RING_COLUMNS, {})
    metadata = MetadataValues(file.metadata, file.path)
    key, given = metadata.pool_key()
    counts = {name: _tag_counts(metadata, name) for name in TAG_COUNTS}
    ring = np.empty((rows.num_rows, len(RING_COLUMNS)), dtype=np.int64)
    for column_idx, name in enumerate(RING_COLUMNS):
        ring[:, column_idx] = rows.integers(name, np.int64)
    ring.setflags(write=False)
    state = CanaryState(
        path=file.path,
        key=key,
        ring=ring,
        violation_write_index=metadata.required_number("violation_write_index"),
        ring_capacity=metadata.required_number("ring_capacity"),
        active_tags=_tags(metadata, "active_tags"),
        **counts,
    )
    return state, given, rows.notes


def _tags(metadata: MetadataValues, key: str) -> tuple[LaunchTag, ...]:
    names = metadata.names(key)
    if not set(names) <= LaunchTag.__members__.keys():
        raise metadata.refuse(key, list(names), f"a JSON list of launch tags, {_TAGS_HINT}")
    return tuple(sorted({LaunchTag[name] for name in names}))


def _tag_counts(metadata: MetadataValues, key: str) -> dict[LaunchTag, int]:
    """A JSON object of counts by launch tag; empty when the key is absent."""
    text = metadata.text(key)
    if text is None:
        return {}
    try:
        counts = json.loads(text)
    except (ValueError, RecursionError):
        counts = None
    if not isinstance(counts, dict) or not all(map(_is_count, counts.items())):
        raise metadata.refuse(key, text, f"a JSON object of counts by launch tag, {_TAGS_HINT}")
    return {LaunchTag[name]: counts[name] for name in sorted(counts, key=LaunchTag.__getitem__)}


def _is_count(item: tuple[str, object]) -> bool:
    name, count = item
    if not isinstance(count, int) or isinstance(count, bool):
        return False
    return name in LaunchTag.__members__ and 0 <= count <= _MAX_COUNT
