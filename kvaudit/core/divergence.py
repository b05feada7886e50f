"""Where a replay and what was recorded part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class DivergenceKind(StrEnum):
    """What differs."""

    VIOLATION = "violation"
    """A launch of the replay found an entry that fails."""
    PLAN = "plan"
    """The recorded plan is not the one that the tables give."""
    TABLE = "table"
    """A request's slots in a snapshot are not those of the replay's table."""
    RECORD = "record"
    """A record in a snapshot is not the one that the steps wrote."""
    STAMP = "stamp"
    """A column's stamp changed between two snapshots, and no step wrote the slot."""
    BYTES = "bytes"
    """A column's bytes are not those that were stamped, or changed without a write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One difference, and the steps in which it arose.

    Fields:
        kind: what differs.
        first_step: the first step that may have made it.
        last_step: the last one: the step at whose end it was seen.
        column: the column or list that differs, such as `kv.k.17`; "" where there is none.
        slot: the slot, in the engine's numbering; None where none is concerned.
        position: the position that the slot holds; None = not known.
        request_ids: the requests that held it then.
        recorded: what the file says; None where a number says nothing.
        replayed: what the replay has instead.
    """

    kind: DivergenceKind
    first_step: int
    last_step: int
    column: str = ""
    slot: int | None = None
    position: int | None = None
    request_ids: Sequence[str] = ()
    recorded: int | None = None
    replayed: int | None = None


@dataclass(slots=True, kw_only=True)
class Divergences:
    """The first differences of a replay, in the order in which they were seen.

    Fields:
        capacity: how many are kept.
        kept: the first ones.
        total: all of them.
    """

    capacity: int = 8
    kept: list[Divergence] = field(default_factory=list)
    total: int = 0

    def add(self, found: Sequence[Divergence], *, total: int | None = None) -> None:
        """Take what one moment shows.

        Args:
            found: its differences, or the first of them.
            total: how many there are; None = as many as are given.
        """
        self.total += len(found) if total is None else total
        room = self.capacity - len(self.kept)
        self.kept += sorted(found, key=lambda each: each.first_step)[:room]
