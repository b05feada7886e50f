"""Tags and their parts."""

from __future__ import annotations

import pytest

from kvaudit.constants import NUM_LAUNCH_TAGS, LaunchTag
from kvaudit.core.launch_tag import half_of, launch_tag, phase_of, pool_kind_of


@pytest.mark.parametrize("tag", list(LaunchTag))
def test_a_tag_is_its_parts(tag: LaunchTag) -> None:
    assert launch_tag(phase_of(tag), half_of(tag), pool_kind_of(tag)) is tag


def test_tags_are_numbered_as_the_engine_does() -> None:
    assert [tag.name for tag in LaunchTag] == [
        f"{phase}_{half}_{kind}"
        for kind in ("FULL", "SWA")
        for phase in ("HEAD", "TAIL", "SWEEP")
        for half in ("K", "V")
    ]
    assert [int(tag) for tag in LaunchTag] == list(range(NUM_LAUNCH_TAGS))
