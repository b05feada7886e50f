"""Who reads a slot and what they expect of it, and which slots are beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvaudit.core.violation import hash_label


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReader:
    """A request that reads a slot.

    Fields:
        request_id: the request; None where a plan does not say.
        position: its position, the pool's offset left out.
    """

    request_id: str | None
    position: int

    def to_dict(self) -> dict[str, Any]:
        """The reader as JSON values."""
        return {"request_id": self.request_id, "position": self.position}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotClaim:
    """What one sequence, or one entry of a plan, says of a slot.

    Fields:
        reader: whose it is.
        source: where it comes from: `sequences`, or the plan's step and launches.
        state: the sequence's state; None where it is not given.
        token: expected token; -1 = not known, or not checked.
        stored_position: expected position as stored, the pool's offset included.
        prev_slot: the slot before it; None at a head and where it is not reachable.
        is_head: whether a chain begins with it.
        prev_hashes: chain hash that follows from the slot before, by record column; unsigned, None
            where nothing follows.
        not_judged: why an audit does not judge it; "" when it does.
    """

    reader: SlotReader
    source: str
    state: str | None = None
    token: int
    stored_position: int
    prev_slot: int | None
    is_head: bool
    prev_hashes: Mapping[str, int | None] = field(default_factory=dict)
    not_judged: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The claim as JSON values."""
        return {
            **self.reader.to_dict(),
            "source": self.source,
            "state": self.state,
            "token": self.token,
            "stored_position": self.stored_position,
            "prev_slot": self.prev_slot,
            "head": self.is_head,
            "prev_hashes": {name: hash_label(value) for name, value in self.prev_hashes.items()},
            "not_judged": self.not_judged,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A slot beside another one, in the pool or in a chain.

    Fields:
        slot: the slot.
        roles: what it is to the other one, such as `previous slot` and `expected predecessor`.
        token: token of its first record that is not zero; None without any.
        position: stored position of that record; None without any.
        readers: who reads it, at most a few.
    """

    slot: int
    roles: Sequence[str]
    token: int | None = None
    position: int | None = None
    readers: Sequence[SlotReader] = ()

    def to_dict(self) -> dict[str, Any]:
        """The neighbour as JSON values."""
        return {
            "slot": self.slot,
            "roles": list(self.roles),
            "token": self.token,
            "position": self.position,
            "readers": [reader.to_dict() for reader in self.readers],
        }
