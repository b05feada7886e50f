"""Small tables of layer-0 rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kvaudit.core.element_types import encoded
from kvaudit.core.layer0_table import Layer0Table, TableSource
from kvaudit.core.rope import Rope, RopeLayout, plain_frequencies

TABLE_METADATA = {
    "kvaudit.dtype": "bfloat16",
    "kvaudit.num_heads": "2",
    "kvaudit.head_dim": "4",
}


def random_rows(num_tokens: int, num_elements: int, *, seed: int = 0) -> np.ndarray:
    """Rows of bfloat16, shape [num_tokens, 2 * num_elements], uint8."""
    values = np.random.default_rng(seed).standard_normal((num_tokens, num_elements))
    return encoded(values.astype(np.float32), "bfloat16")


def layer0_table(**changes: Any) -> Layer0Table:
    """Two tokens of a model of two heads of four elements, of which two turn."""
    values = {
        "tokens": np.array([3, 8]),
        "k0": random_rows(2, 8),
        "v0": random_rows(2, 8, seed=1),
        "dtype": "bfloat16",
        "num_heads": 2,
        "head_dim": 4,
        "rope": Rope(
            inverse_frequencies=plain_frequencies(theta=10_000.0, rotary_dim=2),
            head_dim=4,
            layout=RopeLayout.INTERLEAVED,
        ),
        "model": "toy",
        "source": TableSource.LEARNT,
        "rows_seen": np.array([7, 1]),
        "rows_agreeing": np.array([6, 1]),
        "note": "a toy",
    }
    return Layer0Table(**(values | changes))


def table_columns(**columns: pa.Array) -> dict[str, pa.Array]:
    """The columns of a table of two tokens; an argument of None takes one out."""
    rows = pa.array([bytes(range(16)), bytes(range(16, 32))], pa.binary(16))
    plain = {"token": pa.array([3, 8]), "k0": rows, "v0": rows, **columns}
    return {name: array for name, array in plain.items() if array is not None}
