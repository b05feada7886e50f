"""Parts that do not make one layer are refused."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.model_families import Norm
from kvaudit.errors import SchemaMismatch
from kvaudit.importers.layer0_weights import NormWeights, Projection
from tests.helpers.layer0_weights import layer0_weights


def _ones(*shape: int) -> np.ndarray:
    return np.ones(shape, dtype=np.float32)


@pytest.mark.parametrize(
    "change",
    [
        {"k": Projection(weight=_ones(3, 2))},
        {"v": Projection(weight=_ones(2, 3))},
        {"k": Projection(weight=_ones(2, 2), bias=_ones(3))},
        {"v": Projection(weight=_ones(2, 2), bias=_ones(1))},
        {"norm": NormWeights(kind=Norm.RMS, eps=0.0, weight=_ones(3))},
        {"norm": NormWeights(kind=Norm.RMS, eps=0.0)},
        {"norm": NormWeights(kind=Norm.NONE, eps=0.0, weight=_ones(2))},
        {"norm": NormWeights(kind=Norm.LAYER, eps=0.0, weight=_ones(2), bias=_ones(1))},
        {"k_norm": NormWeights(kind=Norm.RMS, eps=0.0, weight=_ones(3))},
    ],
)
def test_shapes_that_fit_no_model_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        layer0_weights(**change)
    assert caught.value.path == "model"


@pytest.mark.parametrize("shape", [(1,), (2,), (2, 1)])
def test_the_norm_of_k_is_of_a_head_or_of_all(shape: tuple[int, ...]) -> None:
    norm = NormWeights(kind=Norm.RMS, eps=0.0, weight=_ones(*shape))
    assert layer0_weights(k_norm=norm).k_norm is norm
