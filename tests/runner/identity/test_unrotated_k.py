from __future__ import annotations

import numpy as np
import pytest

from kvaudit.runner.identity.unrotated_k import UnrotatedK
from tests.helpers.layer0_worlds import TokenModel

MODEL = TokenModel()
KNOWN = UnrotatedK(
    tokens=np.array([3, 8, 11]),
    entries=np.array([30, 80, 110]),
    numbers=lambda some: MODEL.k0[some],
    rope=MODEL.rope,
    num_positions=100,
    tolerance=0.1,
)


def test_a_token_has_its_entry_or_none() -> None:
    assert KNOWN.entries_of(np.array([8, 4, 11, 999, 0])).tolist() == [80, -1, 110, -1, -1]


def test_nothing_is_known_of_no_token() -> None:
    nothing = np.empty(0, dtype=np.int64)
    empty = UnrotatedK(
        tokens=nothing,
        entries=nothing,
        numbers=lambda some: MODEL.k0[some],
        rope=MODEL.rope,
        num_positions=4,
    )
    assert empty.entries_of(np.array([1, 2])).tolist() == [-1, -1]
    assert KNOWN.positions_of(np.empty((0, 32), dtype=np.float32), nothing).tolist() == []


@pytest.mark.parametrize("position", [0, 1, 42, 99])
def test_a_rotated_entry_is_told_its_position(position: int) -> None:
    entries = np.array([80])
    stored = KNOWN.rotated(entries, np.array([position]))
    assert stored.shape == (1, 32)
    assert KNOWN.positions_of(stored, entries).tolist() == [position]
    assert KNOWN.distances_at_best(stored, entries)[0] < 1e-3


def test_a_row_that_no_position_explains_has_none() -> None:
    stored = MODEL.k0[[5]].reshape(1, -1)
    assert KNOWN.positions_of(stored, np.array([80])).tolist() == [-1]
