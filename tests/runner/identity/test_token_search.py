from __future__ import annotations

import numpy as np

from kvaudit.kernels.distance.numba_cpu import launch_distance
from kvaudit.runner.identity.token_search import KnownRows

RNG = np.random.default_rng(7)
ROWS = RNG.standard_normal((40_000, 48)).astype(np.float32)


def known(rows: np.ndarray = ROWS) -> KnownRows:
    return KnownRows(
        tokens=np.arange(len(rows), dtype=np.int64) + 100,
        numbers=lambda some: rows[some],
        num_elements=rows.shape[1],
    )


def test_a_row_is_found_among_many_in_spite_of_noise() -> None:
    wanted = RNG.integers(0, len(ROWS), 600)
    noisy = ROWS[wanted] * (1 + 0.02 * RNG.standard_normal((600, 48)).astype(np.float32))
    found, distances = known().nearest(noisy, launch_distance)
    assert (found == wanted).all()
    assert (distances < 0.05).all()


def test_what_is_not_among_them_is_far_from_all() -> None:
    _, distances = known().nearest(
        RNG.standard_normal((50, 48)).astype(np.float32), launch_distance
    )
    assert (distances > 0.3).all()


def test_rows_of_damaged_bytes_hide_no_other() -> None:
    rows = ROWS[:2000].copy()
    rows[[0, 7, 1999], 3] = 3e38, -3e38, 1e30
    rows[5] = np.where(np.arange(48) % 2, 3e38, -3e38)
    wanted = np.concatenate((ROWS[100:150], rows[[0, 5]]))
    found, distances = known(rows).nearest(wanted, launch_distance)
    assert found[:50].tolist() == list(range(100, 150))
    assert (distances[:50] < 1e-6).all()


def test_nothing_is_near_where_nothing_is_known() -> None:
    found, distances = known(ROWS[:0]).nearest(ROWS[:3], launch_distance)
    assert found.tolist() == [0, 0, 0]
    assert np.isinf(distances).all()


def test_no_row_is_looked_for() -> None:
    found, _ = known(ROWS[:9]).nearest(ROWS[:0], launch_distance)
    assert found.shape == (0,)
