from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.backends.availability import choose
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.slot_facts import ContentCopy
from kvaudit.core.snapshot import DigestGrain, Snapshot
from kvaudit.runner.blame.content_copies import MAX_COPIES, ContentCopies
from kvaudit.runner.blame.slot_columns import SlotColumns
from tests.helpers import corruptions
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, build, fixture_f, link

ALL = F_STAMPS


def _copies(pool: World | Snapshot, row: int, **limits: int) -> ContentCopies:
    backend, _ = choose("cpu", kv_bytes=0, num_entries=0)
    snapshot = pool.snapshot() if isinstance(pool, World) else pool
    hashes = {
        buffer: np.array(
            [link(*map(int, (r[2], r[0], r[1]))) for r in column.read().view(np.uint64)],
            dtype=np.uint64,
        )
        for buffer, column in snapshot.canary.items()
    }
    columns = SlotColumns(snapshot=snapshot, backend=backend, row=row).digests
    return ContentCopies(
        snapshot=snapshot, backend=backend, row=row, columns=columns, slot_hashes=hashes, **limits
    )


def _first(pool: World | Snapshot, row: int) -> list[ContentCopy]:
    return _copies(pool, row).first()


def _swapped() -> World:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.swap_pages(world, 1, 2)
    return world


def test_content_that_is_nowhere_else_has_no_copy() -> None:
    copies = _copies(fixture_f(stamps=F_STAMPS), 7)
    assert (copies.first(), copies.rows.tolist()) == ([], [])
    assert copies.searched == F_STAMPS


def test_a_slot_that_holds_all_of_another_shares_record_bytes_and_stamps() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.copy_slots(world, [4], [7])
    assert _first(world, 7) == [
        ContentCopy(slot=4, same_records=("k.tail",), same_columns=ALL, stamped_columns=ALL)
    ]


def test_pages_that_changed_places_say_where_each_ones_content_went() -> None:
    assert _first(_swapped(), 3) == [ContentCopy(slot=5, stamped_columns=ALL, written_columns=ALL)]


def test_digests_tell_as_much_as_bytes() -> None:
    whole, digests = _swapped().snapshot(), _swapped().snapshot(digests_only=True)
    assert _first(digests, 3) == _first(whole, 3)


def test_zero_bytes_and_zero_records_are_no_content() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.zero_slots(world, [8, 9])
    assert _first(world, 8) == []
    assert _first(world, 12) == []


def test_those_that_share_a_record_come_before_those_that_share_columns() -> None:
    world = fixture_f(stamps=F_STAMPS)
    world.records["k.tail"][9] = world.records["k.tail"][7]
    for column in world.kv.values():
        column[2] = column[7]
    assert [copy.slot for copy in _first(world, 7)] == [9, 2]


def test_past_the_bytes_that_are_folded_a_column_is_searched_by_its_stamps_alone() -> None:
    world = _swapped()
    copies = _copies(world, 3, max_bytes=2 * 16 * 16)
    assert copies.searched == ("kv.k.0", "kv.v.0")
    assert _copies(world, 3, max_bytes=1).searched == ("kv.k.0",)
    # What is listed of a slot that is found is all of it.
    assert copies.first() == _first(world, 3)


def test_columns_that_differ_are_searched_first() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.flip_bit(world, "kv.v.1", 7)
    assert _copies(world, 7, max_bytes=1).searched == ("kv.v.1",)


def test_all_are_counted_and_some_are_listed() -> None:
    world = build(num_slots=64, stamps=F_STAMPS).request("A", tokens=[1], slots=[2]).done()
    for column in world.kv.values():
        column[10:60] = column[2]
    copies = _copies(world, 2)
    assert len(copies.rows) == 50
    assert [copy.slot for copy in copies.first()] == list(range(10, 10 + MAX_COPIES))


def test_pages_are_found_whole_where_digests_are_of_pages() -> None:
    snapshot = fixture_f(stamps=F_STAMPS, canary=()).snapshot(digests_only=True)
    digest = np.repeat(np.arange(8) + 100, 2)
    digest[10:12] = digest[6:8]
    columns = {"kv.k.0": ArrayColumn(name="digest.k.0", values=digest)}
    paged = replace(snapshot, digests=columns, stamped={}, digest_grain=DigestGrain.PAGE)
    for row in (6, 7):
        assert _first(paged, row) == [ContentCopy(slot=10, same_columns=("kv.k.0",))]
