"""Which launch reads which canary column, and what its combined hash covers."""

from __future__ import annotations

from kvaudit.constants import LaunchTag
from kvaudit.core.column_names import column_half
from kvaudit.core.launch_tag import (
    KvHalf,
    LaunchPhase,
    half_of,
    launch_tag,
    phase_of,
)
from kvaudit.core.snapshot import Snapshot


def column_of(tag: LaunchTag) -> str:
    """The canary column a launch reads; a sweep reads the tail's."""
    buffer = "head" if phase_of(tag) is LaunchPhase.HEAD else "tail"
    return f"{half_of(tag).lower()}.{buffer}"


def tags_of_columns(snapshot: Snapshot) -> tuple[LaunchTag, ...]:
    """The head and tail tags that the snapshot's canary columns allow, ascending."""
    kind = snapshot.key.pool_kind
    tags = [
        launch_tag(phase, half, kind)
        for phase in (LaunchPhase.HEAD, LaunchPhase.TAIL)
        for half in KvHalf
    ]
    return tuple(sorted(tag for tag in tags if column_of(tag) in snapshot.canary))


def has_sources(snapshot: Snapshot, half: KvHalf) -> bool:
    """Whether real_kv_hash of a half covers any column."""
    return any(column_half(name) is half for name in snapshot.stamped_columns)
