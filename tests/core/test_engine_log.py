from __future__ import annotations

import pytest

from kvaudit.constants import FailReason
from kvaudit.core.engine_log import LoggedViolation


def _row(**changes) -> LoggedViolation:
    fields = {"tag": "TAIL_K_SWA", "slot": 3, "position": 1, "reasons": FailReason(1)}
    return LoggedViolation(**{**fields, **changes})


@pytest.mark.parametrize(
    ("tag", "kind"), [("HEAD_V_FULL", "FULL"), ("SWEEP_K_SWA", "SWA"), ("unknown(77)", "")]
)
def test_the_pool_is_the_tags_and_an_unknown_tag_has_none(tag: str, kind: str) -> None:
    assert _row(tag=tag).pool_kind == kind


def test_what_a_write_launch_found_is_told_by_its_reasons() -> None:
    assert _row(reasons=FailReason.WRITE_POSITION_MISMATCH).is_write
    assert not _row(reasons=FailReason.VERIFY_POSITION_MISMATCH).is_write
