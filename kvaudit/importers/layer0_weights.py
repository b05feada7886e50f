"""What of a model makes the rows of layer 0, whatever kind of file it came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.model_families import Norm
from kvaudit.core.rope import Rope
from kvaudit.errors import SchemaMismatch
from kvaudit.importers.weight_tensor import WeightTensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Projection:
    """A linear map of hidden states.

    Fields:
        weight: shape [num_heads * head_dim, hidden_size], float32.
        bias: shape [num_heads * head_dim], float32; None where there is none.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormWeights:
    """A norm of one model.

    Fields:
        kind: what it computes.
        eps: what is added to the variance.
        weight: float32, of the rows that it norms; None where there is none.
        bias: float32 likewise; None where there is none.
    """

    kind: Norm
    eps: float
    weight: NDArray[np.float32] | None = None
    bias: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer0Weights:
    """The embedding, the first norm, and the projections of K and V in layer 0.

    Fields:
        path: the model, as the user wrote it.
        model: its name.
        dtype: element type in which the model computes, and its table is written.
        num_heads: KV heads.
        head_dim: elements of a head.
        embedding: the embedding, shape [num_tokens, hidden_size].
        embedding_scale: what the embedding is multiplied by.
        norm: the first norm.
        k: the projection to K.
        v: the projection to V.
        k_norm: the norm of K, by head or of all heads together as its weight's shape says; None
            where there is none.
        rope: the rotation of K; None where it is not settled.
        note: why it is not; "" where it is.
    """

    path: str
    model: str
    dtype: str
    num_heads: int
    head_dim: int
    embedding: WeightTensor
    embedding_scale: float
    norm: NormWeights
    k: Projection
    v: Projection
    k_norm: NormWeights | None
    rope: Rope | None
    note: str = ""

    def __post_init__(self) -> None:
        hidden_size = self.embedding.shape[-1]
        size = self.num_heads * self.head_dim
        parts: list[tuple[str, NDArray[np.float32] | None, tuple[int, ...]]] = [
            ("the projection to K", self.k.weight, (size, hidden_size)),
            ("the projection to V", self.v.weight, (size, hidden_size)),
            ("the bias of K", self.k.bias, (size,)),
            ("the bias of V", self.v.bias, (size,)),
            ("the first norm", self.norm.weight, (hidden_size,)),
            ("the bias of the first norm", self.norm.bias, (hidden_size,)),
        ]
        for name, weight, wanted in parts:
            if weight is not None and weight.shape != wanted:
                raise self._refusal(f"{name} is of shape {list(weight.shape)}, not {list(wanted)}")
        if (self.norm.weight is None) != (self.norm.kind is Norm.NONE):
            raise self._refusal("its first norm is not that of its family")
        if self.k_norm is not None and self.k_norm.weight is not None:
            heads = (self.num_heads, self.head_dim)
            if self.k_norm.weight.shape not in ((self.head_dim,), (size,), heads):
                raise self._refusal(f"the norm of K is of shape {list(self.k_norm.weight.shape)}")

    def _refusal(self, message: str) -> SchemaMismatch:
        return SchemaMismatch(
            message, path=self.path, hint="its configuration is of another model, or incomplete"
        )
