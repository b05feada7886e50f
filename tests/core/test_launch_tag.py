from __future__ import annotations

import itertools

from kvaudit.constants import NUM_LAUNCH_TAGS, LaunchTag
from kvaudit.core.launch_tag import (
    KvHalf,
    LaunchPhase,
    PoolKind,
    half_of,
    launch_tag,
    phase_of,
    pool_kind_of,
)


def test_tags_are_numbered_by_pool_kind_phase_and_half() -> None:
    tags = [
        launch_tag(phase, half, kind)
        for kind, phase, half in itertools.product(PoolKind, LaunchPhase, KvHalf)
    ]
    assert [int(tag) for tag in tags] == list(range(NUM_LAUNCH_TAGS))


def test_the_parts_of_a_tag_make_the_tag() -> None:
    for tag in LaunchTag:
        assert launch_tag(phase_of(tag), half_of(tag), pool_kind_of(tag)) is tag
