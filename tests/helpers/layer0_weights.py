"""Weights of a model of two heads that one can work out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvaudit.core.model_families import Norm
from kvaudit.importers.layer0_weights import Layer0Weights, NormWeights, Projection
from kvaudit.importers.weight_tensor import WeightTensor

EMBEDDING = np.array([[3.0, 4.0], [0.0, 2.0], [-6.0, 8.0]], dtype=np.float32)


def tensor(values: np.ndarray, **changes: Any) -> WeightTensor:
    """A tensor in memory."""
    plain = {
        "name": "a",
        "shape": values.shape,
        "dtype": "float32",
        "read": lambda first, last: values[first:last],
    }
    return WeightTensor(**(plain | changes))


def layer0_weights(**changes: Any) -> Layer0Weights:
    """Three tokens of hidden size 2; K is the hidden state, V twice that with a bias."""
    plain = {
        "path": "model",
        "model": "toy",
        "dtype": "float32",
        "num_heads": 2,
        "head_dim": 1,
        "embedding": tensor(EMBEDDING),
        "embedding_scale": 1.0,
        "norm": NormWeights(kind=Norm.RMS, eps=0.0, weight=np.ones(2, dtype=np.float32)),
        "k": Projection(weight=np.eye(2, dtype=np.float32)),
        "v": Projection(
            weight=2 * np.eye(2, dtype=np.float32), bias=np.array([0.0, 1.0], dtype=np.float32)
        ),
        "k_norm": None,
        "rope": None,
    }
    return Layer0Weights(**(plain | changes))
