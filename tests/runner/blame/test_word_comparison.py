from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvaudit.backends.availability import choose
from kvaudit.constants import RealKvHashMode
from kvaudit.core.slot_facts import ByteComparison, ContentCopy, WordDifference
from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.blame.slot_columns import SlotColumns
from kvaudit.runner.blame.word_comparison import MAX_COLUMNS, MAX_WORDS, WordComparison
from tests.helpers import corruptions
from tests.helpers.stamped_pools import COLUMNS, F_STAMPS, deep_pool
from tests.helpers.worlds import World, build, fixture_f


def _compared(
    pool: World | Snapshot, row: int = 7, *, copies: Sequence[ContentCopy] = ()
) -> list[ByteComparison]:
    snapshot = pool.snapshot() if isinstance(pool, World) else pool
    backend, _ = choose("cpu", kv_bytes=0, num_entries=0)
    columns = SlotColumns(snapshot=snapshot, backend=backend, row=row).digests
    return WordComparison(snapshot=snapshot, row=row, copies=copies).compare(columns)


def test_what_is_as_stamped_is_not_compared() -> None:
    assert _compared(fixture_f(stamps=F_STAMPS)) == []


def test_a_flipped_bit_is_solved_by_the_stamp() -> None:
    world = fixture_f(stamps=F_STAMPS)
    was = world.kv["kv.v.1"][7].view("<u8").tolist()
    corruptions.flip_bit(world, "kv.v.1", 7, bit=77)
    [found] = _compared(world)
    assert (found.column, found.other_slot) == ("kv.v.1", None)
    assert (found.num_words, found.num_differing) == (2, 1)
    assert found.words == [WordDifference(byte=8, holds=was[1] ^ (1 << 13), other=was[1])]
    assert found.words[0].bits == 1


def test_bytes_are_held_beside_the_slot_that_holds_what_was_stamped() -> None:
    world = build(row_bytes=128, stamps=F_STAMPS)
    world = world.request("A", tokens=[1, 2], slots=[2, 7]).done()
    right = world.kv["kv.k.0"][7].copy()
    world.kv["kv.k.0"][7, 32:] ^= 0x5A
    world.kv["kv.k.0"][9] = right
    [found] = _compared(world, copies=[ContentCopy(slot=9, written_columns=["kv.k.0"])])
    assert found.other_slot == 9
    assert found.says == "beside slot 9 (page 4 +1), which holds what was stamped here"
    assert (found.num_words, found.num_differing) == (16, 12)
    assert [word.byte for word in found.words] == list(range(32, 32 + 8 * MAX_WORDS, 8))
    assert [word.other for word in found.words] == right.view("<u8")[4 : 4 + MAX_WORDS].tolist()


def test_what_nothing_explains_is_not_known_and_shown_as_it_is() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.overwrite_bytes(world, 7)
    found = _compared(world)
    assert [each.column for each in found] == list(F_STAMPS)
    assert {each.num_differing for each in found} == {None}
    assert found[0].says.startswith("what it should hold is not known")
    held = world.kv["kv.k.0"][7].view("<u8").tolist()
    assert [(word.holds, word.other) for word in found[0].words] == [(w, None) for w in held]


def test_of_a_combined_hash_only_the_column_that_is_explained_is_told() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamped_columns=F_STAMPS)
    corruptions.flip_bit(world, "kv.k.1", 7)
    assert [found.column for found in _compared(world)] == ["kv.k.1"]
    corruptions.overwrite_bytes(world, 7)
    assert _compared(world) == []


def test_in_mode_partial_the_leading_words_are_solved_for() -> None:
    world = build(row_bytes=64, mode=RealKvHashMode.PARTIAL, stamped_columns=F_STAMPS[::2])
    world = world.request("A", tokens=[11], slots=[7]).done()
    was = world.kv["kv.k.1"][7].view("<u8").tolist()
    corruptions.flip_bit(world, "kv.k.1", 7, bit=65)
    [found] = _compared(world)
    assert (found.column, found.num_words) == ("kv.k.1", 2)
    assert found.words == [WordDifference(byte=8, holds=was[1] ^ 2, other=was[1])]


def test_digests_alone_give_no_words_but_the_bits_of_the_last() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.flip_bit(world, "kv.k.0", 7, bit=3)
    corruptions.flip_bit(world, "kv.v.0", 7, bit=70)
    [last] = _compared(world.snapshot(digests_only=True))
    assert (last.column, last.num_words, last.words) == ("kv.v.0", None, ())
    assert last.says == (
        "by the digest, 1 bit of the last word turned over, if all other words are right"
    )


def test_so_many_columns_are_compared() -> None:
    world = deep_pool(16)
    corruptions.overwrite_bytes(world, 20)
    found = _compared(world, 20)
    assert [each.column for each in found] == list(COLUMNS[:MAX_COLUMNS])


def test_a_row_whose_bytes_make_no_whole_word_is_padded_as_it_is_hashed() -> None:
    world = build(row_bytes=12, stamps=("kv.k.0",)).request("A", tokens=[1], slots=[7]).done()
    corruptions.flip_bit(world, "kv.k.0", 7, bit=90)
    [found] = _compared(world)
    assert found.num_words == 2
    assert [word.byte for word in found.words] == [8]
    assert found.words[0].holds >> 32 == 0
    assert np.uint64(found.words[0].holds ^ (found.words[0].other or 0)).item() == 1 << 26
