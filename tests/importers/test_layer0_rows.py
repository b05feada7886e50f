"""The rows of layer 0, worked out by hand; `test_model_weights.py` holds them against real classes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.model_families import Norm
from kvaudit.core.observer import SilentObserver
from kvaudit.importers import layer0_rows
from kvaudit.importers.layer0_rows import table_of_weights
from kvaudit.importers.layer0_weights import NormWeights
from tests.helpers.layer0_weights import EMBEDDING, layer0_weights


def _halves(**changes: object) -> tuple[np.ndarray, np.ndarray]:
    table = table_of_weights(layer0_weights(**changes), observer=SilentObserver())
    rows = np.arange(3)
    return table.k_rows(rows)[..., 0], table.v_rows(rows)[..., 0]


def _norm(kind: Norm, *weights: float, bias: tuple[float, ...] | None = None) -> NormWeights:
    return NormWeights(
        kind=kind,
        eps=0.0,
        weight=np.array(weights, dtype=np.float32) if weights else None,
        bias=None if bias is None else np.array(bias, dtype=np.float32),
    )


def test_rows_are_projections_of_the_normed_embedding() -> None:
    """Token 0 is (3, 4): its root mean square is 5 / sqrt(2)."""
    k, v = _halves()
    unit = EMBEDDING / np.sqrt((EMBEDDING**2).mean(axis=1, keepdims=True))
    np.testing.assert_allclose(k, unit, rtol=1e-6)
    np.testing.assert_allclose(k[0], [3 * math.sqrt(2) / 5, 4 * math.sqrt(2) / 5], rtol=1e-6)
    np.testing.assert_allclose(v, 2 * unit + [0, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("norm", "wanted"),
    [
        (_norm(Norm.NONE), [3, 4]),
        (_norm(Norm.RMS, 2, 3), [6 * math.sqrt(2) / 5, 12 * math.sqrt(2) / 5]),
        (_norm(Norm.RMS_PLUS_ONE, 1, 2), [6 * math.sqrt(2) / 5, 12 * math.sqrt(2) / 5]),
        (_norm(Norm.LAYER, 2, 3), [-2, 3]),
        (_norm(Norm.LAYER, 2, 3, bias=(10, 20)), [8, 23]),
    ],
    ids=["none", "rms", "plus one", "layer", "layer with bias"],
)
def test_each_norm_is_its_own(norm: NormWeights, wanted: list[float]) -> None:
    np.testing.assert_allclose(_halves(norm=norm)[0][0], wanted, rtol=1e-6)


def test_epsilon_is_added_to_the_variance() -> None:
    norm = NormWeights(kind=Norm.RMS, eps=3.5, weight=np.ones(2, dtype=np.float32))
    np.testing.assert_allclose(_halves(norm=norm)[0][0], [0.75, 1.0], rtol=1e-6)


def test_the_embedding_is_scaled_before_it_is_normed() -> None:
    k, _ = _halves(embedding_scale=7.0, norm=_norm(Norm.NONE))
    np.testing.assert_array_equal(k, 7 * EMBEDDING)


def test_the_norm_of_k_is_of_each_head_or_of_all() -> None:
    plain = _norm(Norm.NONE)
    by_head, _ = _halves(norm=plain, k_norm=replace(_norm(Norm.RMS, 5), eps=1e-12))
    np.testing.assert_array_equal(by_head, [[5, 5], [0, 5], [-5, 5]])
    of_all, _ = _halves(norm=plain, k_norm=_norm(Norm.RMS, 5, 5))
    np.testing.assert_allclose(of_all[0], [3 * math.sqrt(2), 4 * math.sqrt(2)], rtol=1e-6)


def test_sums_are_rounded_to_the_type_once() -> None:
    """1 + 2^-9 lies between two numbers of bfloat16; the weights are of its numbers too."""
    embedding_scale = 1 + 2.0**-6
    k, _ = _halves(dtype="bfloat16", embedding_scale=embedding_scale, norm=_norm(Norm.NONE))
    np.testing.assert_array_equal(k[0], [3.046875, 4.0625])


def test_no_more_than_a_part_of_the_tokens_is_worked_on_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = _halves()
    seen = []

    class Observer(SilentObserver):
        def advance(self, amount: int) -> None:
            seen.append(amount)

    monkeypatch.setattr(layer0_rows, "_ELEMENTS_AT_ONCE", 4)
    table = table_of_weights(layer0_weights(), observer=Observer())
    assert seen == [2, 1]
    np.testing.assert_array_equal(table.k_rows(np.arange(3))[..., 0], whole[0])
