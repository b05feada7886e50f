from __future__ import annotations

import pytest

from kvaudit.core.coverage import Coverage, Family, FamilyCoverage


@pytest.mark.parametrize(
    ("planned", "checked", "excused", "ratio"),
    [(4, 4, 0, 1.0), (4, 1, 0, 0.25), (4, 2, 2, 1.0), (4, 0, 4, None), (0, 0, 0, None)],
)
def test_the_ratio_is_of_what_was_due(
    planned: int, checked: int, excused: int, ratio: float | None
) -> None:
    covered = FamilyCoverage(planned=planned, checked=checked, excused=excused)
    assert covered.due == planned - excused
    assert covered.ratio == ratio


def test_the_document_counts_planned_before_anything_is_taken_off() -> None:
    covered = FamilyCoverage(planned=4, checked=2, excused=2, details={"unstamped": 2})
    assert covered.to_dict() == {"planned": 4, "checked": 2, "ratio": 1.0, "unstamped": 2}


def test_the_document_has_every_family_and_null_for_what_was_not_planned() -> None:
    coverage = Coverage(
        families={Family.INDEX: FamilyCoverage(planned=1, checked=1), Family.BYTES: None},
        disabled_launches=2,
        slots_pool=16,
        slots_planned=4,
        slots_checked=3,
    )
    assert coverage.to_dict() == {
        "index": {"planned": 1, "checked": 1, "ratio": 1.0},
        "records": None,
        "bytes": None,
        "identity": None,
        "disabled_launches": 2,
        "slots": {"pool": 16, "planned": 4, "checked": 3},
    }
