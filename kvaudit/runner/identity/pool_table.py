"""A layer-0 table as one pool holds it: its rank's heads, and the scale that it is stored with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import element_type
from kvaudit.core.identity import Threshold
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.runner.identity.claims import TokenRows
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.token_search import KnownRows

# Rows of one direction differ in scale alone.
_SAME_DIRECTION: Final = 0.9
NUMBER_TYPES: Final = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
_NO_THRESHOLD: Final = Threshold(distance=0, noise=0, separation=0, pairs=0)
# A learnt entry counts where so many rows agreed on it, and most that were seen.
_MIN_AGREEING_ROWS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolTable:
    """A table's V rows as a pool's column holds them.

    Fields:
        table: the table.
        v: the pool's V column.
        first_head: the first of the heads that the pool holds.
        scale: what the stored numbers are multiplied by.
        threshold: how far a row may be from its token's.
        dtype: the element type that the pool's rows are in, whatever the column says.
        declared_head: the head that the file's rank begins with; -1 where it does not say.
    """

    table: Layer0Table
    v: Layer0Rows
    first_head: int = 0
    scale: float = 1.0
    threshold: Threshold = _NO_THRESHOLD
    dtype: str = ""
    declared_head: int = -1

    @property
    def num_heads(self) -> int:
        """Heads of the pool."""
        return self.v.num_elements // self.token_dim

    @property
    def token_dim(self) -> int:
        """Elements of a head that depend on the token alone: of V, or of a latent row."""
        if self.v.elements is not None:
            return self.v.num_elements
        return self.table.v_head_dim

    def v_numbers(self, entries: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of the table as this pool holds them, shape [n, num_elements], float32."""
        heads = slice(self.first_head, self.first_head + self.num_heads)
        if self.v.elements is not None:
            return self.table.k_rows(entries)[:, 0, self.v.elements] * np.float32(self.scale)
        rows = self.table.v_rows(entries)[:, heads].reshape(len(entries), self.v.num_elements)
        return rows if self.scale == 1 else rows * np.float32(self.scale)

    def k_numbers(self, entries: NDArray[np.int64]) -> NDArray[np.float32]:
        """K before its rotation, shape [n, heads, head_dim], float32."""
        heads = slice(self.first_head, self.first_head + self.num_heads)
        return self.table.k_rows(entries)[:, heads]

    def beginning_with(self, head: int) -> PoolTable:
        """The same, as a rank holds it whose first head is another."""
        return replace(self, first_head=head)

    def known(self) -> KnownRows:
        """All rows, to be searched."""
        return KnownRows(
            tokens=self.table.tokens, numbers=self.v_numbers, num_elements=self.v.num_elements
        )

    def trusted(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The entry of each token, shape [n], int64; -1 where there is none to be relied on."""
        table = self.table
        entries = table.rows_of(tokens)
        if table.rows_seen is None or table.rows_agreeing is None:
            return entries
        is_sure = (table.rows_agreeing >= _MIN_AGREEING_ROWS) & (
            2 * table.rows_agreeing > table.rows_seen
        )
        if not table.num_tokens:
            return entries
        return np.where((entries >= 0) & is_sure[entries], entries, -1)

    def entries_for(self, rows: TokenRows) -> NDArray[np.int64]:
        """The entry that each row is judged by, shape [n], int64; -1 where the table cannot.

        An extra key may stand for other weights, and of two tokens none is the right one.
        """
        entries = self.trusted(rows.tokens)
        entries[(rows.keys != 0) | rows.is_disputed] = -1
        return entries

    def whole_pool(self) -> str:
        """What all rows of the pool have in common that they should not; "" where nothing."""
        if self.dtype and self.dtype != self.v.dtype:
            return f"the column says {self.v.dtype}, and its bytes are {self.dtype}"
        if self.declared_head not in (-1, self.first_head):
            return (
                f"the rank's heads begin with {self.declared_head}, and the rows are those that "
                f"begin with {self.first_head}"
            )
        return ""


def common_scale(held: NDArray[np.float32], wanted: NDArray[np.float32], *, dtype: str) -> float:
    """What stored rows are multiplied by: engines scale numbers of one byte, and no others.

    Args:
        held: rows of a pool, shape [n, num_elements], float32.
        wanted: what they should be but for the scale, of the same shape; a few may be others.
        dtype: the pool's element type.
    """
    kind = element_type(dtype)
    if kind is None or kind.itemsize > 1:
        return 1.0
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        products = np.einsum("ij,ij->i", held, wanted, dtype=np.float64)
        lengths = np.einsum("ij,ij->i", wanted, wanted, dtype=np.float64)
        held_lengths = np.einsum("ij,ij->i", held, held, dtype=np.float64)
        is_same = products / np.sqrt(lengths * held_lengths) > _SAME_DIRECTION
    return float(np.median(products[is_same] / lengths[is_same])) if is_same.any() else 1.0
