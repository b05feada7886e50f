"""Failed entries: an exact count, the first of them, and their rows."""

from __future__ import annotations

import numpy as np

from kvaudit.core.claims import NO_ROW, UNREACHABLE_ROW
from kvaudit.runner import failed_entries
from kvaudit.runner.failed_entries import FAILED_ENTRY, FailedEntries
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.worlds import HEAD_HASH, fixture_f


def _failed(*rows: tuple[int, int, int]) -> np.ndarray:
    """Entries from (slot, position, entry)."""
    entries = np.zeros(len(rows), dtype=FAILED_ENTRY)
    for name, column in zip(("slot", "position", "entry"), zip(*rows, strict=True), strict=True):
        entries[name] = column
    return entries


def test_the_first_rows_in_report_order_are_kept_whatever_order_they_come_in() -> None:
    failed = FailedEntries(3)
    failed.add(_failed((9, 0, 0), (2, 5, 7)))
    failed.add(_failed((2, 5, 3), (2, 1, 9), (30, 0, 1)))
    assert [(row["slot"], row["position"], row["entry"]) for row in failed.kept] == [
        (2, 1, 9),
        (2, 5, 3),
        (2, 5, 7),
    ]
    assert failed.total == 5


def test_a_limit_of_0_still_counts() -> None:
    failed = FailedEntries(0)
    failed.add(_failed((9, 0, 0)))
    assert (failed.total, len(failed.kept)) == (1, 0)


def test_a_row_carries_stored_and_expected_values(run) -> None:
    """The numbers are those of CASES.md 2."""
    world = fixture_f()
    corruptions.swap_pages(world, 1, 2)
    row = run(world.dataset()).violations[0]
    assert (row.slot, row.entry, row.position, row.expected_position) == (2, 0, 2, 0)
    assert (row.token, row.expected_token) == (13, 11)
    assert (row.chain_hash, row.expected_chain_hash) == (0x13F5BAAFE6EF85D6, HEAD_HASH)
    assert (row.real_kv_hash, row.expected_real_kv_hash) == (0, 0)


def test_an_unchecked_token_is_shown_as_minus_1(run) -> None:
    world = fixture_f()
    corruptions.flip_record_bit(world, 5, corruptions.POSITION)
    assert run(world.dataset(tokens=False)).violations[0].expected_token == -1


def test_an_unreachable_predecessor_shows_the_stored_chain_hash(run) -> None:
    world = fixture_f()
    request = world.request_of("B")
    request.slots, request.start_position = request.slots[1:], 1
    corruptions.flip_record_bit(world, 7, corruptions.TOKEN)
    row = run(world.dataset()).violations[0]
    assert row.chain_hash == row.expected_chain_hash == 0x37FCA5A47DCA7665


def test_a_combined_hash_that_is_not_judged_expects_nothing(run) -> None:
    from kvaudit.constants import RealKvHashMode

    world = fixture_f(mode=RealKvHashMode.ALL)
    corruptions.flip_record_bit(world, 9, corruptions.TOKEN)
    judged, unjudged = (run(world.dataset(), skip_bytes=skip).violations[0] for skip in (0, 1))
    assert judged.expected_real_kv_hash == judged.real_kv_hash
    assert unjudged.expected_real_kv_hash is None


def test_the_rules_get_every_failed_entry_in_entry_order_whatever_is_shown() -> None:
    failed = FailedEntries(1)
    failed.add(_failed((9, 0, 0), (2, 5, 7)))
    failed.add(_failed((1, 0, 8)))
    assert failed.diagnosed["entry"].tolist() == [0, 7, 8]


def test_a_storm_is_cut_to_what_rules_look_at(monkeypatch) -> None:
    monkeypatch.setattr(failed_entries, "MAX_DIAGNOSED", 3)
    failed = FailedEntries(1)
    for _ in range(3):
        failed.add(_failed((9, 0, 0), (2, 5, 7)))
    assert (failed.total, len(failed.diagnosed)) == (6, 3)


def test_failed_rows_hold_what_was_stored_and_what_was_expected() -> None:
    world = fixture_f()
    corruptions.swap_pages(world, 1, 2)
    rows = failing(world).failed
    assert rows.rows.tolist() == rows.slots.tolist() == [2, 3, 4, 5]
    assert rows.prev_rows.tolist() == [NO_ROW, 2, 3, 4]
    assert rows.records[:, corruptions.TOKEN].tolist() == [13, 14, 11, 12]
    assert (rows.expected_tokens.tolist(), rows.expected_positions.tolist()) == (
        [11, 12, 13, 14],
        [0, 1, 2, 3],
    )
    assert rows.expected_chain_hashes[0] == HEAD_HASH
    assert rows.expected_chain_hashes[1] == rows.records[1, corruptions.PREV_HASH]


def test_a_failed_slot_outside_the_pool_has_no_row_and_no_record() -> None:
    world = fixture_f()
    world.request_of("B").slots[2] = 99
    rows = failing(world).failed
    assert (rows.slots.tolist(), rows.rows.tolist()) == ([99, 9], [NO_ROW, 9])
    assert rows.prev_rows.tolist() == [7, UNREACHABLE_ROW]
    assert not rows.records[0].any()
