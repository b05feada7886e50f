"""The rows of layer 0 from a model's weights: no forward pass, and one part of the tokens at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import decoded, encoded
from kvaudit.core.layer0_table import Layer0Table, TableSource
from kvaudit.core.model_families import Norm
from kvaudit.core.observer import RunObserver
from kvaudit.importers.layer0_weights import Layer0Weights, NormWeights, Projection

# Hidden states of so many elements at a time: a few copies of them are all the memory beside the
# table itself.
_ELEMENTS_AT_ONCE: Final = 1 << 23
_Rounding = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def table_of_weights(weights: Layer0Weights, *, observer: RunObserver) -> Layer0Table:
    """The rows of every token of the embedding, rounded where the model rounds.

    Args:
        weights: of the model.
        observer: is told how many tokens are done.
    """
    num_tokens, hidden_size = weights.embedding.shape
    row_shape = (weights.num_heads, weights.head_dim)
    row_bytes = encoded(np.zeros((1, *row_shape), dtype=np.float32), weights.dtype).size
    k0, v0 = (np.empty((num_tokens, row_bytes), dtype=np.uint8) for _ in range(2))
    tokens_at_once = max(1, _ELEMENTS_AT_ONCE // hidden_size)
    rounded = _rounding(weights.dtype)
    weights = _rounded_weights(weights, rounded)
    observer.stage("tokens", num_tokens)
    for first in range(0, num_tokens, tokens_at_once):
        last = min(first + tokens_at_once, num_tokens)
        embedded = _embedded(weights, slice(first, last), rounded)
        states = _normed(embedded, weights.norm, rounded)
        k0[first:last] = _as_bytes(_k(weights, states, rounded), weights.dtype)
        v0[first:last] = _as_bytes(_projected(states, weights.v), weights.dtype)
        observer.advance(last - first)
    return Layer0Table(
        path=weights.path,
        tokens=np.arange(num_tokens, dtype=np.int64),
        k0=k0,
        v0=v0,
        dtype=weights.dtype,
        num_heads=weights.num_heads,
        head_dim=weights.head_dim,
        rope=weights.rope,
        model=weights.model,
        source=TableSource.MODEL,
        note=weights.note,
    )


def _rounded_weights(weights: Layer0Weights, rounded: _Rounding) -> Layer0Weights:
    """The weights as the model loads them into its own type."""

    def of_projection(projection: Projection) -> Projection:
        return Projection(weight=rounded(projection.weight), bias=some(projection.bias))

    def of_norm(norm: NormWeights) -> NormWeights:
        return replace(norm, weight=some(norm.weight), bias=some(norm.bias))

    def some(values: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
        return None if values is None else rounded(values)

    return replace(
        weights,
        norm=of_norm(weights.norm),
        k=of_projection(weights.k),
        v=of_projection(weights.v),
        k_norm=None if weights.k_norm is None else of_norm(weights.k_norm),
    )


def _embedded(weights: Layer0Weights, some: slice, rounded: _Rounding) -> NDArray[np.float32]:
    """Hidden states of some tokens, shape [n, hidden_size], float32."""
    states = rounded(weights.embedding.read(some.start, some.stop))
    if weights.embedding_scale == 1:
        return states
    # The model holds its scale in its own type.
    scale = rounded(np.array([[weights.embedding_scale]], dtype=np.float32))
    return rounded(states * scale)


def _k(
    weights: Layer0Weights, states: NDArray[np.float32], rounded: _Rounding
) -> NDArray[np.float32]:
    """K before its rotation, shape [n, num_heads * head_dim], float32."""
    rows = _projected(states, weights.k)
    if weights.k_norm is None:
        return rows
    weight = weights.k_norm.weight
    whole = (len(rows), weights.num_heads * weights.head_dim)
    is_by_head = weight is None or weight.ndim > 1 or len(weight) == weights.head_dim
    shape = (len(rows), weights.num_heads, weights.head_dim) if is_by_head else whole
    return _normed(rounded(rows).reshape(shape), weights.k_norm, rounded).reshape(whole)


def _projected(states: NDArray[np.float32], projection: Projection) -> NDArray[np.float32]:
    """What a projection gives, shape [n, num_heads * head_dim], float32, not yet rounded."""
    rows: NDArray[np.float32] = states @ projection.weight.T
    if projection.bias is not None:
        rows += projection.bias
    return rows


def _normed(
    states: NDArray[np.float32], norm: NormWeights, rounded: _Rounding
) -> NDArray[np.float32]:
    """States, shape [..., size], float32, as a norm of the model leaves them."""
    if norm.kind is Norm.NONE:
        return states
    if norm.kind is Norm.LAYER:
        states = states - states.mean(axis=-1, keepdims=True)
    squares = np.einsum("...i,...i->...", states, states)[..., None] / np.float32(states.shape[-1])
    unit = states / np.sqrt(squares + np.float32(norm.eps))
    if norm.kind is Norm.RMS:
        unit = rounded(unit)
    if norm.weight is not None:
        unit *= norm.weight + 1 if norm.kind is Norm.RMS_PLUS_ONE else norm.weight
    if norm.bias is not None:
        unit += norm.bias
    return rounded(unit)


def _rounding(dtype: str) -> _Rounding:
    """Rounds to the numbers of a type."""
    if dtype == "float32":
        return lambda values: values

    def rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
        rows = values.reshape(-1, values.shape[-1])
        return decoded(encoded(rows, dtype), dtype).reshape(values.shape)

    return rounded


def _as_bytes(rows: NDArray[np.float32], dtype: str) -> NDArray[np.uint8]:
    return encoded(rows, dtype).reshape(len(rows), -1)
