"""What layer 0 holds of each token, whatever the context: K before its rotation, and V."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import decoded, element_type
from kvaudit.core.rope import Rope
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ValuesInvalid


class TableSource(StrEnum):
    """Where the rows of a table come from."""

    DUMP = "dump"
    LEARNT = "learnt"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer0Table:
    """The layer-0 rows of tokens, one a token. A row is of a whole model: all heads of all ranks.

    Tokens are strictly ascending and not negative. A latent row, of a model whose K and V are one,
    stands in k0, the rotary part of it by `rope.first_dim`; v0 is None then.

    Fields:
        path: the file as the user wrote it; "" in memory.
        key: the pairing key.
        tokens: the tokens, shape [n], int64.
        k0: K before its rotation, shape [n, row_bytes], uint8; None when not known.
        v0: V, shape [n, row_bytes], uint8; None when not known.
        dtype: element type of the rows, such as `bfloat16`.
        num_heads: KV heads of the model.
        head_dim: elements of a head of K.
        v_head_dim: elements of a head of V; 0 where v0 is None.
        rope: how K is rotated, all frequencies 0 where it is not; None when that is not known.
        model: the model's name, "" when unknown.
        source: where the rows come from.
        rows_seen: rows of a dump that each entry was learnt from, shape [n], int64; None of a model.
        rows_agreeing: those among them that agree with it, shape [n], int64; None of a model.
        note: what is to be said of the table, such as why the rope is not known; "" = nothing.
    """

    path: str = ""
    key: PoolKey = PoolKey()
    tokens: NDArray[np.int64]
    k0: NDArray[np.uint8] | None
    v0: NDArray[np.uint8] | None
    dtype: str
    num_heads: int
    head_dim: int
    v_head_dim: int = 0
    rope: Rope | None = None
    model: str = ""
    source: TableSource
    rows_seen: NDArray[np.int64] | None = None
    rows_agreeing: NDArray[np.int64] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        self._check_tokens()
        if self.k0 is None and self.v0 is None:
            raise self._refusal("it has neither K nor V", "give k0, v0 or both")
        kind = element_type(self.dtype)
        if kind is None:
            raise self._refusal(f"the element type {self.dtype!r} is not known", "see FORMAT.md")
        if self.v0 is not None and not self.v_head_dim:
            object.__setattr__(self, "v_head_dim", self.head_dim)
        for name, rows, dim in (("k0", self.k0, self.head_dim), ("v0", self.v0, self.v_head_dim)):
            wanted = (len(self.tokens), self.num_heads * dim * kind.itemsize)
            if rows is not None and rows.shape != wanted:
                raise self._refusal(
                    f"{name} is of shape {list(rows.shape)}, not {list(wanted)}: {self.num_heads} "
                    f"heads of {dim} {kind.name}",
                    "correct num_heads, head_dim or dtype",
                )
        if self.rope is not None and self.rope.head_dim != self.head_dim:
            raise self._refusal(
                f"its rope is of heads of {self.rope.head_dim}, its rows of {self.head_dim}",
                "give the rope of this model",
            )
        for counts in (self.rows_seen, self.rows_agreeing):
            if counts is not None and counts.shape != self.tokens.shape:
                raise self._refusal("a count of rows is missing", "give one a token")

    def _check_tokens(self) -> None:
        if len(self.tokens) and self.tokens[0] < 0:
            raise self._refusal(f"token {self.tokens[0]} is negative", "leave it out")
        falls = np.flatnonzero(self.tokens[1:] <= self.tokens[:-1])
        if falls.size:
            row = int(falls[0]) + 1
            raise self._refusal(
                f"token {self.tokens[row]} follows token {self.tokens[row - 1]}",
                "sort the rows by token and keep one row a token",
            )

    def _refusal(self, message: str, hint: str) -> ValuesInvalid:
        return ValuesInvalid(f"a layer-0 table: {message}", path=self.path or None, hint=hint)

    @property
    def num_tokens(self) -> int:
        """Tokens that the table knows."""
        return len(self.tokens)

    def rows_of(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each token, shape [n], int64; -1 where the table has no such token."""
        if not self.num_tokens:
            return np.full(tokens.shape, -1, dtype=np.int64)
        rows = np.searchsorted(self.tokens, tokens).astype(np.int64, copy=False)
        rows[rows == self.num_tokens] = 0
        rows[self.tokens[rows] != tokens] = -1
        return rows

    def k_rows(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """K before its rotation of some rows.

        Returns:
            shape [n, num_heads, head_dim], float32.

        Raises:
            ValuesInvalid: the table knows no K.
        """
        return self._numbers(self.k0, rows, self.head_dim)

    def v_rows(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """V of some rows.

        Returns:
            shape [n, num_heads, v_head_dim], float32.

        Raises:
            ValuesInvalid: the table knows no V.
        """
        return self._numbers(self.v0, rows, self.v_head_dim)

    def _numbers(
        self, data: NDArray[np.uint8] | None, rows: NDArray[np.int64], dim: int
    ) -> NDArray[np.float32]:
        if data is None:
            raise self._refusal("it does not know that half", "ask for the other one")
        return decoded(data[rows], self.dtype).reshape(-1, self.num_heads, dim)
