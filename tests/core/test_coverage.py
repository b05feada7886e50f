"""Coverage as numbers and as JSON."""

from __future__ import annotations

from kvaudit.core.coverage import Coverage, Family, FamilyCoverage


def test_excused_entries_are_not_due() -> None:
    covered = FamilyCoverage(planned=10, checked=6, excused=2)
    assert (covered.due, covered.ratio) == (8, 0.75)
    assert FamilyCoverage(planned=4, checked=0, excused=4).ratio is None


def test_a_family_with_nothing_planned_is_null() -> None:
    covered = FamilyCoverage(planned=2, checked=2, details={"unstamped": 0})
    document = Coverage(
        families={Family.RECORDS: covered, Family.BYTES: None},
        slots_pool=16,
        slots_planned=8,
        slots_checked=7,
    ).to_dict()
    assert document == {
        "index": None,
        "records": {"planned": 2, "checked": 2, "ratio": 1.0, "unstamped": 0},
        "bytes": None,
        "identity": None,
        "disabled_launches": 0,
        "slots": {"pool": 16, "planned": 8, "checked": 7},
    }
