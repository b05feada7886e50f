"""K in the layout that an engine keeps it in, where that is not the makers' own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.rope import Rope, RopeLayout
from kvaudit.importers.layer0_weights import Layer0Weights, Projection


def in_layout(weights: Layer0Weights, layout: RopeLayout) -> Layer0Weights:
    """The weights of a model that pairs the elements of a head otherwise, and gives the same scores.

    Without a known rotation they stay as they are: nothing is judged by K then.
    """
    rope = weights.rope
    if rope is None or rope.layout is layout:
        return weights
    order = _order(rope, layout)
    by_head = np.arange(weights.num_heads * weights.head_dim).reshape(-1, weights.head_dim)
    rows = by_head[:, order].ravel()
    bias = None if weights.k.bias is None else weights.k.bias[rows]
    norm = weights.k_norm
    if norm is not None and norm.weight is not None:
        # A weight of one head, of each head, or of all in one row.
        moved = norm.weight.reshape(-1, weights.head_dim)[:, order]
        norm = replace(norm, weight=moved.reshape(norm.weight.shape))
    return replace(
        weights,
        k=Projection(weight=weights.k.weight[rows], bias=bias),
        k_norm=norm,
        rope=replace(rope, layout=layout),
    )


def _order(rope: Rope, layout: RopeLayout) -> NDArray[np.int64]:
    """Which element of the old head each of the new one is, shape [head_dim], int64."""
    turning = np.arange(rope.rotary_dim)
    by_pair = turning.reshape(2, -1) if layout is RopeLayout.INTERLEAVED else turning.reshape(-1, 2)
    order = np.arange(rope.head_dim)
    order[rope.first_dim : rope.first_dim + rope.rotary_dim] = rope.first_dim + by_pair.T.ravel()
    return order
