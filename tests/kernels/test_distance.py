"""`distance`: by hand, against the reference, invariants.

Host implementations alone: there is no other.
"""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kvaudit.kernels import distance
from tests.kernels.implementations import CPU, IN_SIMULATOR, REFERENCE

HOSTS = (REFERENCE,) if IN_SIMULATOR else (REFERENCE, CPU)
pytestmark = [
    pytest.mark.parametrize("implementation", [pytest.param(each, id=each.name) for each in HOSTS])
]

FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


def measured(implementation, rows, expected):
    """The distances of rows from those expected."""
    rows, expected = np.array(rows, dtype=np.float32), np.array(expected, dtype=np.float32)
    distances = np.full(len(rows), -1.0)
    implementation.run("distance", rows=rows, expected=expected, distances=distances)
    return distances


def test_the_signature_is_the_contract_s(implementation):
    launch = implementation.module("distance").launch_distance
    assert f"`launch_distance({', '.join(inspect.signature(launch).parameters)})`" in (
        distance.__doc__ or ""
    )


@pytest.mark.parametrize(
    ("row", "expected", "wanted"),
    [
        ([3, 4], [3, 4], 0.0),
        ([0, 0], [0, 0], 0.0),
        ([0, 0], [3, 4], 1.0),
        ([3, 4], [0, 0], 1.0),
        ([1, 0], [0, 1], math.sqrt(2)),
        ([3, 4], [-3, -4], 2.0),
        ([3, 4], [3, 5], 1 / math.sqrt(34)),
        ([1, math.nan], [1, 2], math.inf),
        ([1, 2], [math.inf, 2], math.inf),
        ([math.inf, 2], [math.inf, 2], math.inf),
    ],
)
def test_distances_by_hand(implementation, row, expected, wanted):
    assert measured(implementation, [row], [expected])[0] == pytest.approx(wanted, abs=0)


def test_no_row_is_no_distance(implementation):
    assert measured(implementation, np.empty((0, 4)), np.empty((0, 4))).shape == (0,)


def test_rows_of_no_element_are_equal(implementation):
    assert measured(implementation, np.empty((2, 0)), np.empty((2, 0))).tolist() == [0, 0]


@given(st.data())
def test_agrees_with_the_reference_to_the_last_bit(implementation, data):
    shape = (data.draw(st.integers(1, 5)), data.draw(st.integers(1, 40)))
    rows = data.draw(arrays(np.float32, shape, elements=FINITE))
    expected = data.draw(arrays(np.float32, shape, elements=FINITE))
    found = measured(implementation, rows, expected)
    assert found.tobytes() == measured(REFERENCE, rows, expected).tobytes()
    assert found.tobytes() == measured(implementation, expected, rows).tobytes()
    assert (found <= 2 + 1e-12).all()


def test_many_rows_are_shared_out_and_each_is_measured(implementation):
    rows = np.random.default_rng(1).standard_normal((3000, 512)).astype(np.float32)
    if implementation is REFERENCE:
        rows = rows[:40]
    others = np.roll(rows, 1, axis=0)
    found = measured(implementation, rows, others)
    gaps = np.linalg.norm(rows.astype(float) - others, axis=1)
    lengths = np.linalg.norm(rows.astype(float), axis=1)
    assert found == pytest.approx(gaps / np.maximum(lengths, np.roll(lengths, 1)))
