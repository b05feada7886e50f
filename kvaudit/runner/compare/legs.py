"""Which dumps are compared with which, and what the files tell of the way between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_choices import LETTERS
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.snapshot import PoolKey, Snapshot
from kvaudit.errors import ConfigError, SnapshotInconsistent
from kvaudit.runner.compare.side import Side

_DP_RANK: Final = "dp_rank"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedPools:
    """The pools of two or three sets of files.

    Fields:
        pools: the dumps of each pool that all sets have, in the order of the sets.
        alone: pools that a set has and another lacks, one sentence each.
    """

    pools: Sequence[tuple[AuditedPool, ...]]
    alone: Sequence[str]


def paired_pools(datasets: Sequence[Dataset]) -> PairedPools:
    """Pair the pools of the sets: one of each with one of each, else by group, pool and rank.

    Raises:
        ConfigError: a set has two dumps of one pool.
        SnapshotInconsistent: the dumps of a pair are of different pools, or nothing pairs.
    """
    if all(len(dataset.pools) == 1 for dataset in datasets):
        only = tuple(dataset.pools[0] for dataset in datasets)
        _check_pools(only)
        return PairedPools(pools=(only,), alone=())
    named = [_by_place(dataset, letter) for dataset, letter in zip(datasets, LETTERS, strict=False)]
    everywhere = [place for place in named[0] if all(place in pools for pools in named)]
    alone = [
        f"{pool.snapshot.path or place.label()}: {LETTERS[number]} alone has "
        f"{place.label()}: give the other's dump of it"
        for number, pools in enumerate(named)
        for place, pool in pools.items()
        if place not in everywhere
    ]
    if not everywhere:
        raise SnapshotInconsistent(
            f"no pool is in all of them: {alone[0]}",
            hint="name one snapshot of each, or dump both with the same group, pool and rank",
        )
    return PairedPools(
        pools=[tuple(pools[place] for pools in named) for place in everywhere], alone=alone
    )


def _by_place(dataset: Dataset, letter: str) -> dict[PoolKey, AuditedPool]:
    """The pools of one set by what is the same wherever and whenever they were dumped."""
    found: dict[PoolKey, AuditedPool] = {}
    for pool in dataset.pools:
        place = replace(pool.snapshot.key, instance=None, tier=None, step=None)
        if place in found:
            raise ConfigError(
                f"{letter} has two dumps of {place.label()}: {found[place].snapshot.path} and "
                f"{pool.snapshot.path}",
                hint="name the one to compare",
            )
        found[place] = pool
    return found


def _check_pools(pools: Sequence[AuditedPool]) -> None:
    """Refuse dumps of pools that hold different things by right.

    Raises:
        SnapshotInconsistent: naming both files.
    """
    first, *others = (pool.snapshot for pool in pools)
    for other in others:
        for what, one, two in (
            ("pool kind", first.key.pool_kind, other.key.pool_kind),
            ("group", first.key.group, other.key.group),
        ):
            if one != two and one and two:
                raise SnapshotInconsistent(
                    f"its {what} is {one}, and that of {other.path or 'the other dump'} is {two}",
                    path=first.path or None,
                    hint="compare dumps of one pool",
                )


def leg_kind(left: Snapshot, right: Snapshot) -> LegKind:
    """What lies between two dumps, as far as their pairing keys tell."""
    ours, theirs = left.key, right.key
    if None not in (ours.rank, theirs.rank) and ours.rank != theirs.rank:
        beside = replace(ours, rank=None, step=None) == replace(theirs, rank=None, step=None)
        apart = left.metadata.get(_DP_RANK) != right.metadata.get(_DP_RANK)
        if beside and not apart:
            return LegKind.RANKS
    if ours.place() == theirs.place() and None not in (ours.step, theirs.step):
        return LegKind.TRANSFER if ours.step == theirs.step else LegKind.STEPS
    return LegKind.TRANSFER


def distinct_keys(keys: Sequence[PoolKey], *, letters: str) -> list[PoolKey]:
    """The keys that rows and findings of some dumps carry; where two are one, with the letters."""
    if len(set(keys)) == len(keys):
        return list(keys)
    return [
        replace(key, instance=letter if key.instance is None else f"{key.instance} {letter}")
        for key, letter in zip(keys, letters, strict=False)
    ]


def leg_name(left: Side, right: Side) -> str:
    """`A->B (device -> host)`: the dumps, and the parts of their keys that differ."""
    ours, theirs = left.snapshot.key, right.snapshot.key
    parts = [
        (label.format(one), label.format(other))
        for label, one, other in (
            ("{}", ours.instance, theirs.instance),
            ("{}", ours.tier, theirs.tier),
            ("rank {}", ours.rank, theirs.rank),
            ("step {}", ours.step, theirs.step),
        )
        if one != other and None not in (one, other)
    ]
    told = " ".join(one for one, _ in parts), " ".join(other for _, other in parts)
    way = f" ({told[0]} -> {told[1]})" if parts else ""
    return f"{left.letter}->{right.letter}{way}"
