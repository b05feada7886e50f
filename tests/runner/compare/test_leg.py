from __future__ import annotations

from tests.helpers.comparing import HOST, THERE, change_byte, clear, compared, dumped


def test_rows_are_of_records_and_of_columns_and_all_are_counted() -> None:
    damaged = dumped(THERE, key=HOST)
    clear(damaged, [12, 13])
    change_byte(damaged, 2)
    report = compared(dumped(), damaged, max_violations=2)
    # Three buffers and the columns of two slots, and the columns of a third one.
    assert report.violations_total == 2 * (3 + 1) + 1
    assert len(report.violations) == 2
    [leg] = report.legs
    assert leg.slots_differing == 3
    assert leg.matched == {"content": 6, "request": 2}
    assert (leg.left_slots, leg.right_slots) == (8, 8)
    assert (leg.left_unmatched, leg.right_unmatched) == (0, 0)
    assert leg.columns == ("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1")
