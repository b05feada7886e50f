"""Whether a layer-0 table is of the model of a pool, and which of its heads the pool holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import element_type
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.identity.claims import TokenRows
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.pool_table import NUMBER_TYPES, PoolTable, common_scale
from kvaudit.runner.identity.threshold import ceiling_of, floor_of, proved_threshold
from kvaudit.runner.identity.token_election import different_pairs

_MAX_SAMPLED: Final = 1 << 10
# A table is another model's where fewer of the rows are their own token's, and fewer than half are
# any token's at all: by chance none is.
_MIN_OWN: Final = 0.1
_MIN_KNOWN: Final = 0.5


def fitted_table(
    table: Layer0Table, snapshot: Snapshot, v: Layer0Rows, *, rows: TokenRows
) -> PoolTable | str:
    """A table as a pool holds it, or why it says nothing of this pool.

    Args:
        table: the table.
        snapshot: the pool.
        v: its V column.
        rows: what each row should hold.

    Raises:
        FileCorrupt: a chunk's digest differs.
    """
    bare = PoolTable(table=table, v=v)
    if reason := _why_not_shaped(bare):
        return reason
    entries = bare.entries_for(rows)
    known = np.flatnonzero(entries >= 0)
    if not known.size:
        return "the table knows none of the tokens"
    bare = replace(bare, declared_head=_declared_head(snapshot, table.num_heads, bare.num_heads))
    sample = _spread(known)
    readable = sample[v.readable(rows.rows[sample])]
    fitted = _best_fit(bare, rows.rows[readable], entries[readable]) if readable.size else ""
    if isinstance(fitted, PoolTable) or readable.size > len(sample) // 2:
        return fitted
    return _of_no_numbers(bare, entries[sample])


def _of_no_numbers(bare: PoolTable, entries: NDArray[np.int64]) -> PoolTable | str:
    """The table where most rows of the pool are zeros or no numbers, which no token's row is.

    Nothing tells the rank's heads but the file, and the threshold rests on the table alone.
    """
    view = replace(bare, first_head=max(bare.declared_head, 0), dtype=bare.v.dtype)
    floor = floor_of(view.dtype)
    threshold = proved_threshold(np.zeros(len(entries)), _different(view, entries), floor=floor)
    return threshold if isinstance(threshold, str) else replace(view, threshold=threshold)


def _why_not_shaped(bare: PoolTable) -> str:
    """Why a table's rows and the pool's are not of one shape; "" where they are."""
    table, v = bare.table, bare.v
    if (table.v0 is None) != (v.elements is not None):
        latent = "the pool's K and V are one row, those of the table two"
        return "the table has no V" if table.v0 is None else latent
    if v.num_elements % bare.token_dim or v.num_elements > table.num_heads * bare.token_dim:
        return (
            f"the table's rows are {table.num_heads} heads of {bare.token_dim}, the pool's "
            f"{v.num_elements} elements: it is of another model"
        )
    return ""


def _best_fit(
    bare: PoolTable, rows: NDArray[np.int64], entries: NDArray[np.int64]
) -> PoolTable | str:
    """The heads and the element type that fit most of some rows, shape [n], int64."""
    best: tuple[float, PoolTable, NDArray[np.float64]] | None = None
    reason = ""
    for candidate in _candidates(bare):
        view = _scaled(candidate, rows, entries)
        different = _different(view, entries)
        ceiling = ceiling_of(different)
        distances = _distances(view, rows, entries)
        share = float((distances < ceiling).mean())
        threshold = proved_threshold(
            distances[distances < ceiling], different, floor=floor_of(view.dtype)
        )
        if isinstance(threshold, str):
            reason = reason or threshold
            continue
        if best is None or share > best[0]:
            best = (share, replace(view, threshold=threshold), distances)
        if share >= _MIN_KNOWN:
            break
    if best is not None and best[0] >= _MIN_OWN:
        return best[1]
    return _by_other_tokens(bare, rows, entries, otherwise=reason)


def _by_other_tokens(
    bare: PoolTable, rows: NDArray[np.int64], entries: NDArray[np.int64], *, otherwise: str
) -> PoolTable | str:
    """The table where most rows are another token's of it: all of the pool may be misplaced."""
    view = replace(bare, first_head=max(bare.declared_head, 0), dtype=bare.v.dtype)
    view = _scaled(view, rows, entries)
    _, distances = view.known().nearest(view.v.numbers(rows), view.v.launch_distance)
    different = _different(view, entries)
    is_known = distances < ceiling_of(different)
    if is_known.mean() < _MIN_KNOWN:
        named = f" ({bare.table.model})" if bare.table.model else ""
        return f"the pool's rows are not in the table{named}: it is of another model"
    threshold = proved_threshold(distances[is_known], different, floor=floor_of(view.dtype))
    if isinstance(threshold, str):
        return otherwise or threshold
    return replace(view, threshold=threshold)


def _candidates(bare: PoolTable) -> Iterator[PoolTable]:
    """The declared heads and type first, then other types, then other heads."""
    step = max(1, bare.num_heads)
    starts = list(range(0, bare.table.num_heads - step + 1, step))
    first = bare.declared_head if bare.declared_head >= 0 else starts[0]
    named = element_type(bare.v.dtype)
    types = [
        kind.name
        for kind in map(element_type, NUMBER_TYPES)
        if kind is not None and named is not None and kind.itemsize == named.itemsize
    ]
    own = "" if named is None else named.name
    yield replace(bare, first_head=first, dtype=own)
    for start in starts:
        if start != first:
            yield replace(bare, first_head=start, dtype=own)
    for other in types:
        if other != own:
            yield replace(bare, first_head=first, dtype=other)


def _declared_head(snapshot: Snapshot, num_heads: int, heads_of_pool: int) -> int:
    """The first head of the rank that the file names; -1 where it does not say."""
    if heads_of_pool >= num_heads or snapshot.metadata.get("kv_sharding") == "replicated":
        return 0
    rank = snapshot.metadata.get("tp_rank") or snapshot.key.rank
    world = snapshot.metadata.get("world_size")
    try:
        number = -1 if rank is None else int(rank)
        size = num_heads // heads_of_pool if world is None else int(world)
    except ValueError:
        return -1
    if not 0 <= number < size:
        return -1
    first = number * num_heads // size
    return first if first + heads_of_pool <= num_heads else -1


def _scaled(view: PoolTable, rows: NDArray[np.int64], entries: NDArray[np.int64]) -> PoolTable:
    """The table with the scale that the pool is stored with."""
    held, wanted = view.v.numbers(rows, dtype=view.dtype), view.v_numbers(entries)
    return replace(view, scale=common_scale(held, wanted, dtype=view.dtype))


def _distances(
    view: PoolTable, rows: NDArray[np.int64], entries: NDArray[np.int64]
) -> NDArray[np.float64]:
    found = np.empty(len(rows), dtype=np.float64)
    view.v.launch_distance(view.v.numbers(rows, dtype=view.dtype), view.v_numbers(entries), found)
    return found


def _different(view: PoolTable, entries: NDArray[np.int64]) -> NDArray[np.float64]:
    """Distances between the rows of different tokens of a sample."""
    one, other = different_pairs(entries, np.ones(len(entries), dtype=np.bool_))
    one, other = one[:_MAX_SAMPLED], other[:_MAX_SAMPLED]
    found = np.empty(len(one), dtype=np.float64)
    view.v.launch_distance(view.v_numbers(entries[one]), view.v_numbers(entries[other]), found)
    return found


def _spread(members: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(members) <= _MAX_SAMPLED:
        return members
    return members[np.linspace(0, len(members) - 1, _MAX_SAMPLED).astype(np.int64)]
