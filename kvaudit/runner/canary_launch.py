"""One launch tag of the run: the records it reads, and what their real_kv_hash must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.launch_tag import KvHalf, LaunchPhase, half_of, phase_of
from kvaudit.core.snapshot import DumpMoment, Snapshot
from kvaudit.runner.canary_columns import has_sources


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryLaunch:
    """One tag over all sources that use it.

    Fields:
        tag: the tag.
        records: the record array, shape [num_indices, 4], int64.
        real_kv_hashes: expected combined hash by index, shape [num_indices], uint64; None = 0.
        real_kv_hash_judged: whether a difference of it is a violation.
    """

    tag: LaunchTag
    records: NDArray[np.int64]
    real_kv_hashes: NDArray[np.uint64] | None
    real_kv_hash_judged: bool


def launch_of(
    tag: LaunchTag,
    records: NDArray[np.int64],
    *,
    snapshot: Snapshot,
    combined: Mapping[KvHalf, NDArray[np.uint64]],
) -> CanaryLaunch:
    """The launch of a tag over a canary column.

    Args:
        tag: the tag.
        records: the record array, shape [num_indices, 4], int64.
        snapshot: the pool.
        combined: expected combined hash of each half that has one, by index.
    """
    half, expected, judged = half_of(tag), None, True
    if phase_of(tag) is LaunchPhase.HEAD or snapshot.real_kv_hash_mode is RealKvHashMode.NONE:
        pass
    elif half in combined:
        expected, judged = combined[half], snapshot.at is not DumpMoment.MID_STEP
    else:
        # No source expects 0; sources that cannot be folded expect nothing.
        judged = not has_sources(snapshot, half)
    return CanaryLaunch(
        tag=tag, records=records, real_kv_hashes=expected, real_kv_hash_judged=judged
    )
