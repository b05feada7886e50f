"""A copy of a pool that a fault damages: what it writes to is copied, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import RealKvHashMode
from kvaudit.core.column_names import (
    canary_name,
    column_half,
    digest_name,
    stamped_name,
    tail_of,
)
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.kv_column import ArrayColumn, RowColumn
from kvaudit.core.snapshot import DigestGrain
from kvaudit.diagnosis.byte_rows import folded, words_of
from kvaudit.errors import ConfigError
from kvaudit.runner.inject.chains import Chain, chains_of
from kvaudit.runner.inject.column import PatchedKvColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Where a fault goes, as far as it was asked for.

    Fields:
        request_id: the request that it is put into; None = any that can show it.
        position: the first position that it damages; None = any that can show it.
    """

    request_id: str | None = None
    position: int | None = None


class PoolCopy:
    """A pool in memory, as far as a fault touches it.

    Args:
        pool: the pool; it is not changed.
        fault: the fault's name, for what is refused.
        rng: what chooses.
        aim: what was asked for.
    """

    def __init__(
        self, pool: AuditedPool, *, fault: str, rng: np.random.Generator, aim: Aim
    ) -> None:
        self.snapshot = pool.snapshot
        self.sequences = list(pool.sequences)
        self.plans = list(pool.plans)
        self.rng = rng
        self._fault = fault
        self._aim = aim
        self._heeded: set[str] = set()
        self._columns: dict[str, NDArray[Any]] = {}
        self._kv: dict[str, PatchedKvColumn] = {}

    def refusal(self, needs: str) -> ConfigError:
        """The error of a fault that this pool cannot show."""
        return ConfigError(
            f"{self._fault} cannot be put into this dump: it needs {needs}",
            hint="`kvaudit inject --fault list` says what each class needs",
        )

    def check_aim(self) -> None:
        """Whether all that was asked for was heeded.

        Raises:
            ConfigError: the fault has no such place.
        """
        for name, label in (("request_id", "request"), ("position", "position")):
            if getattr(self._aim, name) is not None and name not in self._heeded:
                raise ConfigError(
                    f"{self._fault} takes no {label}", hint="leave it out: the seed chooses"
                )

    @property
    def columns(self) -> list[str]:
        """The columns that were written to, in the order of the first write."""
        return [*(name for name, kv in self._kv.items() if kv.is_patched), *self._columns]

    @cached_property
    def chains(self) -> list[Chain]:
        """The live sequences with what each holds alone."""
        return chains_of(self.snapshot, self.sequences)

    def chains_with(self, num_slots: int) -> list[Chain]:
        """The chains that hold so many slots alone, shuffled; of the request that was asked for.

        Raises:
            ConfigError: there is none.
        """
        asked = self._aim.request_id
        self._heeded.add("request_id")
        fitting = [
            chain
            for chain in self.chains
            if len(chain) >= num_slots and asked in (None, chain.request_id)
        ]
        if not fitting:
            whose = "a request" if asked is None else f"request {asked}"
            raise self.refusal(f"{whose} in its sequences with {num_slots} slots that no other has")
        return [fitting[idx] for idx in self.rng.permutation(len(fitting)).tolist()]

    def place_in(self, chain: Chain, *, first: int, last: int) -> int:
        """An index into a chain within [first, last): the position asked for, else any.

        Raises:
            ConfigError: the position that was asked for is not among them.
        """
        self._heeded.add("position")
        if self._aim.position is None:
            return int(self.rng.integers(first, last))
        idx = self._aim.position - chain.first_position
        if not first <= idx < last:
            first, last = first + chain.first_position, last + chain.first_position
            raise self.refusal(f"a position from {first} to {last - 1} of {chain.request_id}")
        return idx

    def place_among(self, chain: Chain, fits: NDArray[np.bool_]) -> int | None:
        """An index into a chain among those that fit, shape [len], bool: as in `place_in`.

        None where none does, or where the position that was asked for does not.
        """
        self._heeded.add("position")
        if self._aim.position is None:
            places = np.flatnonzero(fits)
            return int(self.rng.choice(places)) if places.size else None
        idx = self._aim.position - chain.first_position
        return idx if 0 <= idx < len(chain) and fits[idx] else None

    def records(self) -> list[NDArray[np.uint64]]:
        """Every record column that was stamped, to write to, each shape [num_rows, 4], uint64.

        Raises:
            ConfigError: there is none.
        """
        found = [self.records_of(buffer) for buffer in self.stamped_buffers()]
        if not found:
            raise self.refusal("stamped records (canary.*)")
        return found

    def watched(self) -> list[str]:
        """The KV columns of which a stamp tells a change.

        Raises:
            ConfigError: there is none.
        """
        held = self.content_columns()
        names = [name for name in held if name in self.snapshot.stamped] or self.combined(held)
        if not names:
            raise self.refusal("stamped.* columns of its KV, or a real_kv_hash in its records")
        return names

    def combined(self, held: Collection[str]) -> list[str]:
        """The columns that the records' real_kv_hash covers, if it can be recomputed."""
        snapshot = self.snapshot
        if snapshot.real_kv_hash_mode is RealKvHashMode.NONE:
            return []
        is_leading = snapshot.real_kv_hash_mode is RealKvHashMode.PARTIAL
        if not set(snapshot.stamped_columns) <= set(snapshot.kv if is_leading else held):
            return []
        stamped = self.stamped_buffers()
        return [name for name in snapshot.stamped_columns if tail_of(column_half(name)) in stamped]

    def content_columns(self) -> list[str]:
        """Every KV column that the dump has bytes, or digests of slots, of.

        Raises:
            ConfigError: there is none.
        """
        names = list(dict.fromkeys((*self.snapshot.kv, *self.snapshot.digests)))
        if not names or self.snapshot.digest_grain is DigestGrain.PAGE:
            raise self.refusal("KV bytes, or digests of slots")
        return names

    def bytes_of(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bytes of a column's rows, shape [n, row_bytes], uint8, a copy."""
        return self._patched(name).rows_at(rows)

    def set_bytes(self, name: str, rows: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        """Put bytes into a column's rows, and their digests where the dump has those too."""
        column = self._patched(name)
        column.patch(rows, data)
        if name in self.snapshot.digests:
            self.digests(name)[rows] = folded(words_of(data[:, : column.read_bytes]))

    def digests(self, name: str) -> NDArray[np.uint64]:
        """The dumped digests of a column, to write to, shape [num_rows], uint64."""
        return self._own(digest_name(name), self.snapshot.digests[name]).view(np.uint64)

    def evidence(self, name: str) -> NDArray[Any]:
        """An evidence column, to write to, shape [num_rows].

        Raises:
            ConfigError: the dump does not have it.
        """
        if name not in self.snapshot.evidence:
            raise self.refusal(f"the column {name}")
        return self._own(name, self.snapshot.evidence[name])

    def stamp_of(self, name: str) -> NDArray[np.uint64]:
        """The stamps of a KV column, to write to, shape [num_rows], uint64."""
        return self._own(stamped_name(name), self.snapshot.stamped[name]).view(np.uint64)

    def stamps(self) -> list[NDArray[np.uint64]]:
        """The stamps of every column, to write to, each shape [num_rows], uint64."""
        return [self.stamp_of(name) for name in self.snapshot.stamped]

    def done(self) -> AuditedPool:
        """The pool as it is now."""
        snapshot = self.snapshot
        damaged = replace(
            snapshot,
            canary=self._now(snapshot.canary, canary_name),
            stamped=self._now(snapshot.stamped, stamped_name),
            digests=self._now(snapshot.digests, digest_name),
            evidence=self._now(snapshot.evidence, str),
            kv={name: self._kv.get(name, column) for name, column in snapshot.kv.items()},
        )
        return AuditedPool(
            snapshot=damaged, sequences=tuple(self.sequences), plans=tuple(self.plans)
        )

    def _now(
        self, columns: Mapping[str, RowColumn], name_of: Callable[[str], str]
    ) -> dict[str, RowColumn]:
        return {
            key: ArrayColumn(name=name_of(key), values=self._columns[name_of(key)])
            if name_of(key) in self._columns
            else column
            for key, column in columns.items()
        }

    def stamped_buffers(self) -> list[str]:
        """The record columns that hold any record."""
        canary = self.snapshot.canary
        return [
            buffer
            for buffer in canary
            if canary_name(buffer) in self._columns or canary[buffer].read().any()
        ]

    def records_of(self, buffer: str) -> NDArray[np.uint64]:
        """A record column, to write to, shape [num_rows, 4], uint64."""
        return self._own(canary_name(buffer), self.snapshot.canary[buffer]).view(np.uint64)

    def _patched(self, name: str) -> PatchedKvColumn:
        return self._kv.setdefault(name, PatchedKvColumn(self.snapshot.kv[name]))

    def _own(self, name: str, column: RowColumn) -> NDArray[Any]:
        if name not in self._columns:
            self._columns[name] = column.read().copy()
        return self._columns[name]
