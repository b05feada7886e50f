"""A table of layer-0 rows learnt from dumps: what most rows of each token hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.backend import Backend
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.element_types import element_type, encoded
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.kv_column import KvColumn
from kvaudit.core.layer0_table import Layer0Table, TableSource
from kvaudit.core.observer import RunObserver
from kvaudit.core.rope import Rope
from kvaudit.errors import SnapshotInconsistent, ValuesInvalid
from kvaudit.runner.expectations import expectations_of
from kvaudit.runner.identity.claims import TokenRows, token_rows
from kvaudit.runner.identity.identity_pass import LAYER0_K, LAYER0_V
from kvaudit.runner.identity.layer0_rows import Layer0Rows, distance_launcher, why_no_numbers
from kvaudit.runner.identity.position_judge import judged_positions
from kvaudit.runner.identity.token_election import TokenElection, elected


def learnt_table(
    pools: Sequence[AuditedPool],
    *,
    backend: Backend,
    observer: RunObserver,
    rope: Rope | None = None,
    model: str = "",
) -> Layer0Table:
    """Learn the rows of every token that the pools hold; sequences with an extra key are left out.

    Args:
        pools: dumps of one model and rank, with the tokens of their sequences.
        backend: which implementation measures.
        observer: told of a kernel that is compiled.
        rope: how K is rotated; None: as the first pool says, and where it does not, no K is learnt.
        model: the model's name; "": as the first pool says.

    Raises:
        FileCorrupt: a chunk's digest differs.
        SnapshotInconsistent: the pools' rows are not of one size and type.
        ValuesInvalid: a pool has no layer-0 V or no tokens, or the rows of one token differ: layer 0
            depends on more than the token.
    """
    snapshot = pools[0].snapshot
    launch = distance_launcher(backend, observer)
    v = Layer0Rows(
        columns=[_column(pool, LAYER0_V, pools[0]) for pool in pools], launch_distance=launch
    )
    rows = _joined([_rows(pool) for pool in pools], [pool.snapshot.num_rows for pool in pools])
    election = elected(rows, v)
    if isinstance(election, str):
        raise ValuesInvalid(
            f"layer 0 cannot be learnt: {election}",
            path=snapshot.path or None,
            hint="add dumps of other requests, or learn from the model: --model DIR",
        )
    if rope is None and "rope" in snapshot.metadata:
        rope = Rope.from_json(snapshot.metadata["rope"])
    members = _learnt(election)
    k0 = None
    if rope is not None and all(LAYER0_K in pool.snapshot.kv for pool in pools):
        columns = [_column(pool, LAYER0_K, pools[0]) for pool in pools]
        k = Layer0Rows(columns=columns, launch_distance=launch)
        k0 = _unrotated(election.voters, members, k, rope=rope)
    head_dim = v.num_elements if rope is None or k0 is None else rope.head_dim
    return Layer0Table(
        tokens=election.voters.tokens[members],
        k0=k0,
        v0=v.stored(election.voters.rows[members]),
        dtype=v.dtype,
        num_heads=v.num_elements // head_dim,
        head_dim=head_dim,
        rope=rope if k0 is not None else None,
        model=model or snapshot.metadata.get("model", ""),
        source=TableSource.LEARNT,
        rows_seen=election.votes.totals[election.groups[members]],
        rows_agreeing=election.votes.votes[election.groups[members]],
    )


def _rows(pool: AuditedPool) -> TokenRows:
    """What each row of a pool should hold; disputed rows and extra keys tell nothing."""
    expected = expectations_of(pool, ALL_ENTRIES)
    evidence = PoolEvidence(
        snapshot=pool.snapshot, sequences=expected.sequences, sources=expected.sources
    )
    rows = token_rows(evidence)
    return rows.only((rows.keys == 0) & ~rows.is_disputed & (rows.positions >= 0))


def _joined(parts: Sequence[TokenRows], num_rows: Sequence[int]) -> TokenRows:
    """The rows of all pools, numbered through."""
    firsts = np.cumsum([0, *num_rows[:-1]])
    moved = [
        replace(part, rows=part.rows + first)
        for part, first in zip(parts, firsts.tolist(), strict=True)
    ]
    return TokenRows(
        **{
            name: np.concatenate([getattr(part, name) for part in moved])
            for name in TokenRows.__dataclass_fields__
        }
    )


def _column(pool: AuditedPool, name: str, first: AuditedPool) -> KvColumn:
    """A layer-0 column of a pool, which must be like that of the first."""
    column, model = pool.snapshot.kv.get(name), first.snapshot.kv.get(name)
    path = pool.snapshot.path or None
    if column is None or model is None:
        raise ValuesInvalid(
            f"it has no {name} to learn from", path=path, hint="dump the bytes of layer 0"
        )
    if reason := why_no_numbers(column):
        raise ValuesInvalid(
            f"layer 0 cannot be learnt: {reason}",
            path=path,
            hint="dump it in a float type, and name that",
        )
    if (column.row_bytes, column.dtype) != (model.row_bytes, model.dtype):
        raise SnapshotInconsistent(
            f"rows of {column.row_bytes} bytes of {column.dtype}, those of the first dump of "
            f"{model.row_bytes} of {model.dtype}",
            path=path,
            column=name,
            hint="learn from dumps of one model, rank and cache type",
        )
    return column


def _learnt(election: TokenElection) -> NDArray[np.int64]:
    """A voter for each token: of what most rows hold, else of the first content; by token."""
    votes = election.votes
    chosen = np.where(votes.winners >= 0, votes.winners, votes.first)
    chosen = chosen[chosen >= 0]
    return chosen[np.argsort(election.voters.tokens[chosen], kind="stable")]


def _unrotated(
    voters: TokenRows, members: NDArray[np.int64], k: Layer0Rows, *, rope: Rope
) -> NDArray[np.uint8] | None:
    """K of some voters before its rotation, in the pools' type; None where that cannot be written."""
    kind = element_type(k.dtype)
    if kind is None or kind.encode is None or k.num_elements % rope.head_dim:
        return None
    shape = (-1, k.num_elements // rope.head_dim, rope.head_dim)
    held = k.numbers(voters.rows[members]).reshape(shape)
    numbers = rope.unrotated(held, voters.positions[members]).reshape(len(members), -1)
    # Where rows of one token differ in K, what most of them hold counts.
    order = np.argsort(voters.rows)
    known = judged_positions(voters.only(order), k, rope=rope, table=None).known
    if known is not None:
        entries = known.entries_of(voters.tokens[members])
        agreed = np.flatnonzero(entries >= 0)
        numbers[agreed] = known.numbers(entries[agreed]).reshape(len(agreed), -1)
    return encoded(numbers, k.dtype)
