"""Bytes beside the hash that they should have, and words solved from it."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.diagnosis.byte_rows import byte_rows, folded, solved_words, words_of
from kvaudit.diagnosis.failures import Failures
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import content, fixture_f, fold


@pytest.mark.parametrize("num_bytes", [1, 8, 15, 16, 100])
def test_rows_fold_to_their_source_hash(num_bytes: int) -> None:
    data = np.stack([content("kv.k.0", token, 3, num_bytes) for token in (5, 6)])
    assert folded(words_of(data)).tolist() == [fold(row.tobytes()) for row in data]


def test_any_one_word_is_solved_from_the_hash_and_the_others() -> None:
    data = content("kv.k.0", 5, 3, 40)[None]
    right = words_of(data)
    for number in range(5):
        wrong = right.copy()
        wrong[0, number] ^= np.uint64(0xDEAD)
        assert solved_words(wrong, folded(right))[0, number] == right[0, number]


@pytest.mark.parametrize("mode", [RealKvHashMode.PARTIAL, RealKvHashMode.ALL])
def test_a_combined_hash_gives_each_column_as_if_it_were_the_wrong_one(
    mode: RealKvHashMode,
) -> None:
    world = fixture_f(mode=mode, stamped_columns=("kv.k.0", "kv.k.1"), row_bytes=32)
    right = {name: world.kv[name][7].copy() for name in world.kv}
    corruptions.flip_bit(world, "kv.k.1", 7)
    length = 16 if mode is RealKvHashMode.PARTIAL else 32
    parts = {part.column: part for part in byte_rows(Failures(failing(world)).byte_view)}
    assert list(parts) == ["kv.k.0", "kv.k.1"]
    part = parts["kv.k.1"]
    assert part.is_solved
    assert part.written.tolist() == [fold(right["kv.k.1"][:length].tobytes())]
    assert part.held.tolist() == [fold(world.kv["kv.k.1"][7, :length].tobytes())]
    assert part.data.tobytes() == world.kv["kv.k.1"][7, :length].tobytes()


def test_rows_with_a_stamp_of_their_own_are_not_solved_again() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamps=F_STAMPS)
    corruptions.overwrite_bytes(world, 7)
    parts = list(byte_rows(Failures(failing(world)).byte_view))
    assert [part.column for part in parts] == list(F_STAMPS)
    assert not any(part.is_solved for part in parts)
