"""Rotation, its inverse, and the position that a row was rotated for."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from kvaudit.core.rope import Rope, RopeLayout, plain_frequencies, relative_distances
from kvaudit.errors import ValuesInvalid

NUM_POSITIONS = 8192


def _rope(**options: object) -> Rope:
    frequencies = plain_frequencies(theta=10_000.0, rotary_dim=32)
    return Rope(**{"inverse_frequencies": frequencies, "head_dim": 64, **options})


def _rows(count: int, *, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((count, 3, 64)).astype(np.float32)


@pytest.mark.parametrize(("layout", "partner"), [("half", 2), ("interleaved", 1)])
def test_each_pair_turns_by_its_frequency_times_the_position(layout: str, partner: int) -> None:
    """By hand: pair 0 of four rotary elements, behind one that does not turn."""
    rope = Rope(
        inverse_frequencies=np.array([1.0, 0.1]),
        head_dim=6,
        first_dim=1,
        layout=RopeLayout(layout),
        factor=2.0,
    )
    row = np.zeros((1, 1, 6), dtype=np.float32)
    row[0, 0, [0, 1, 5]] = [7.0, 1.0, 9.0]
    [[found]] = rope.rotated(row, np.array([3]))
    wanted = np.zeros(6)
    wanted[[0, 1, 1 + partner, 5]] = [7.0, 2 * math.cos(3), 2 * math.sin(3), 9.0]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("layout", list(RopeLayout))
def test_undoing_a_rotation_gives_the_row_back(layout: RopeLayout) -> None:
    rope = _rope(layout=layout, first_dim=16, factor=1.19)
    rows, positions = _rows(500), np.arange(500) * 263
    rotated = rope.rotated(rows, positions)
    assert not np.allclose(rotated, rows, atol=0.1)
    np.testing.assert_allclose(rope.unrotated(rotated, positions), rows, atol=2e-6)


def test_the_rows_that_are_given_stay_as_they_are() -> None:
    rows = _rows(4)
    before = rows.copy()
    rows.setflags(write=False)
    _rope().rotated(rows, np.arange(4))
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("layout", list(RopeLayout))
def test_the_position_of_every_row_is_found_under_noise(layout: RopeLayout) -> None:
    rope, rows, positions = _rope(layout=layout), _rows(NUM_POSITIONS), np.arange(NUM_POSITIONS)
    stored = rope.rotated(rows, positions)
    stored += 0.03 * _rows(NUM_POSITIONS, seed=1)
    found = rope.positions_of(rows, stored, num_positions=NUM_POSITIONS)
    np.testing.assert_array_equal(found.positions, positions)
    assert 0.01 < found.distances.min() < found.distances.max() < 0.05


def test_a_row_of_another_token_is_near_no_position() -> None:
    rope, rows = _rope(), _rows(100)
    stored = rope.rotated(_rows(100, seed=2), np.arange(100))
    assert rope.positions_of(rows, stored, num_positions=100).distances.min() > 0.5


def test_rows_without_an_angle_are_explained_by_no_position() -> None:
    rope, rows = _rope(), _rows(3)
    stored = rows.copy()
    stored[0], stored[1, 0, 0], rows[2] = 0, np.inf, 0
    distances = rope.positions_of(rows, stored, num_positions=10).distances
    assert distances[0] == 1
    assert distances[1:].tolist() == [math.inf, math.inf]


def test_a_rope_comes_back_from_its_text() -> None:
    rope = _rope(layout=RopeLayout.INTERLEAVED, first_dim=8, factor=1.19)
    found = Rope.from_json(rope.to_json())
    np.testing.assert_array_equal(found.inverse_frequencies, rope.inverse_frequencies)
    assert (found.layout, found.first_dim, found.head_dim, found.factor) == (
        RopeLayout.INTERLEAVED,
        8,
        64,
        1.19,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"inverse_frequencies": "no"},
        {"inverse_frequencies": []},
        {"inverse_frequencies": [[1.0]]},
        {"inverse_frequencies": [math.nan]},
        {"inverse_frequencies": [1.0] * 33},
        {"head_dim": "64"},
        {"head_dim": 0},
        {"head_dim": 1 << 40},
        {"layout": "third"},
        {"first_dim": -1},
        {"first_dim": 33},
        {"factor": 0},
        {"factor": None},
    ],
    ids=str,
)
def test_a_text_that_makes_no_rope_is_refused(change: dict[str, object]) -> None:
    values = json.loads(_rope().to_json()) | change
    with pytest.raises(ValuesInvalid):
        Rope.from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "[]", "7", "null", "{}", "[" * 100_000])
def test_a_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValuesInvalid):
        Rope.from_json(text)


def test_a_distance_is_over_the_length_of_the_row_expected() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 1.0]], dtype=np.float32)
    expected = np.array([[3.0, 0.0], [0.0, 0.0], [np.nan, 1.0]], dtype=np.float32)
    assert relative_distances(rows, expected).tolist() == [
        pytest.approx(4 / 3),
        math.inf,
        math.inf,
    ]
