"""The parts of a launch tag: phase, half and pool kind."""

from __future__ import annotations

from enum import StrEnum

from kvaudit.constants import LaunchTag


class LaunchPhase(StrEnum):
    """When a launch runs: before the forward, after it, or over cached slots."""

    HEAD = "HEAD"
    TAIL = "TAIL"
    SWEEP = "SWEEP"


class KvHalf(StrEnum):
    """K or V. A fused column (`kv`) counts as K."""

    K = "K"
    V = "V"


class PoolKind(StrEnum):
    """A pool of all positions, or of a sliding window of them."""

    FULL = "FULL"
    SWA = "SWA"


def launch_tag(phase: LaunchPhase, half: KvHalf, pool_kind: PoolKind) -> LaunchTag:
    """The tag of a phase, half and pool kind."""
    return LaunchTag[f"{phase}_{half}_{pool_kind}"]


def phase_of(tag: LaunchTag) -> LaunchPhase:
    """The phase part of a tag."""
    return LaunchPhase(tag.name.split("_")[0])


def half_of(tag: LaunchTag) -> KvHalf:
    """The half part of a tag."""
    return KvHalf(tag.name.split("_")[1])


def pool_kind_of(tag: LaunchTag) -> PoolKind:
    """The pool-kind part of a tag."""
    return PoolKind(tag.name.split("_")[2])
