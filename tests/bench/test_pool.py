from __future__ import annotations

import numpy as np

from kvaudit.bench.options import RealKv
from tests.helpers.bench_pools import NUM_ENTRIES, pool


def test_pages_stand_in_random_order_and_their_slots_in_a_row() -> None:
    built = pool()
    pages = built.slots.reshape(-1, built.page_size)
    assert (np.diff(pages, axis=1) == 1).all()
    assert (pages[:, 0] % built.page_size == 0).all()
    assert (np.diff(pages[:, 0]) < 0).any()


def test_each_slot_has_one_owner_and_page_0_none() -> None:
    built = pool(num_entries=NUM_ENTRIES - 3)
    assert len(np.unique(built.slots)) == built.num_entries == NUM_ENTRIES - 3
    assert built.slots.min() >= built.page_size
    assert built.slots.max() < built.num_slots


def test_positions_begin_anew_with_each_request() -> None:
    built = pool(num_entries=1100)
    assert built.offsets.tolist() == [0, 256, 512, 768, 1024, 1100]
    assert (built.positions[built.offsets[:-1]] == 0).all()
    assert built.positions.max() == 255


def test_the_seed_decides_everything() -> None:
    first, again, other = pool(), pool(), pool(seed=1)
    for name in ("slots", "tokens", "kv"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        assert (getattr(first, name) != getattr(other, name)).any()


def test_layers_lie_side_by_side_in_each_slot() -> None:
    built = pool(layers=3)
    assert built.slot_bytes == 3 * 64
    slot_rows = built.kv.reshape(built.num_slots, 3 * 64)
    layers = [built.layer_rows(layer) for layer in range(3)]
    np.testing.assert_array_equal(np.concatenate(layers, axis=1), slot_rows)
    assert all(np.shares_memory(rows, built.kv) for rows in layers)


def test_bytes_are_made_only_where_something_reads_them() -> None:
    built = pool()
    assert built.kv.shape == (built.num_slots // 4, 4 * 64)
    assert len(np.unique(built.kv.view(np.uint64))) == built.kv.size // 8
    assert pool(real_kv=(RealKv.NONE,)).kv.size == 0
