"""Printed violations in groups: one a content of a slot, and what follows from it behind its root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kvaudit.constants import FailReason
from kvaudit.core.engine_log import LoggedViolation
from kvaudit.core.log_report import LoggedSlot
from kvaudit.kernels.hash.reference import splitmix64_mix3

# An engine prints 1024 rows in a process's life; what mixes many lives stays in bounded memory.
MAX_GROUPS: Final = 1 << 16
# A slot's group keeps so many of each value that may differ between its rows.
MAX_VALUES: Final = 64

_Value = TypeVar("_Value", int, str)
_Key = tuple[str, int, int, int | None, int | None, bool]


@dataclass(slots=True, kw_only=True, eq=False)
class _Group:
    """Rows of one content of one slot; sets keep the order of the log."""

    first: LoggedViolation
    reasons: FailReason
    expected_tokens: dict[int, None] = field(default_factory=dict)
    expected_positions: dict[int, None] = field(default_factory=dict)
    expected_hashes: dict[int, None] = field(default_factory=dict)
    tags: dict[str, None] = field(default_factory=dict)
    ranks: dict[str, None] = field(default_factory=dict)
    first_step: int | None = None
    last_step: int | None = None
    num_rows: int = 0

    def add(self, row: LoggedViolation) -> None:
        self.num_rows += 1
        self.reasons |= row.reasons
        _keep(self.expected_tokens, row.expected_token)
        _keep(self.expected_positions, row.expected_position)
        _keep(self.expected_hashes, row.expected_hash)
        _keep(self.tags, row.tag)
        _keep(self.ranks, row.rank or None)
        if row.step is not None:
            known = row.step if self.first_step is None else self.first_step
            self.first_step = min(known, row.step)
            self.last_step = max(row.step if self.last_step is None else self.last_step, row.step)

    def slot(self) -> LoggedSlot:
        return LoggedSlot(
            pool_kind=self.first.pool_kind,
            slot=self.first.slot,
            position=self.first.position,
            token=self.first.token,
            chain_hash=self.first.chain_hash,
            reasons=self.reasons,
            expected_tokens=sorted(self.expected_tokens),
            expected_positions=sorted(self.expected_positions),
            expected_hashes=sorted(self.expected_hashes),
            tags=list(self.tags),
            ranks=list(self.ranks),
            first_step=self.first_step,
            last_step=self.last_step,
            num_rows=self.num_rows,
        )


class ViolationGroups:
    """Takes violations in any order, and groups them in bounded memory."""

    def __init__(self) -> None:
        self._groups: dict[_Key, _Group] = {}
        self.num_rows = 0
        self.num_ungrouped = 0

    def add(self, row: LoggedViolation) -> None:
        """Take one."""
        self.num_rows += 1
        key = (row.pool_kind, row.slot, row.position, row.token, row.chain_hash, row.is_write)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                self.num_ungrouped += 1
                return
            group = self._groups[key] = _Group(first=row, reasons=row.reasons)
        group.add(row)

    def slots(self) -> list[LoggedSlot]:
        """The groups, in the log's order."""
        return [group.slot() for group in self._groups.values()]


def roots(slots: Sequence[LoggedSlot]) -> list[tuple[LoggedSlot, list[LoggedSlot]]]:
    """Each root with the slots that follow from it, in the log's order.

    A slot follows from another where nothing but its chain failed, and the hash that was expected
    is the link of the very record that the other holds: 64 bits that cannot agree by chance. Where
    several slots hold that record and none is the one before, it stays a root.
    """
    by_link: dict[tuple[str, int], list[int]] = {}
    for index, slot in enumerate(slots):
        if (link := _link(slot)) is not None:
            by_link.setdefault((slot.pool_kind, link), []).append(index)
    parents = {index: _parent(index, slots, by_link) for index in range(len(slots))}
    found: dict[int, list[LoggedSlot]] = {}
    for index, slot in enumerate(slots):
        top = _top(index, parents)
        followers = found.setdefault(top, [])
        if top != index:
            followers.append(slot)
    return [(slots[index], followers) for index, followers in found.items()]


def _parent(
    index: int, slots: Sequence[LoggedSlot], by_link: Mapping[tuple[str, int], Sequence[int]]
) -> int | None:
    slot = slots[index]
    if slot.reasons != FailReason.VERIFY_CHAIN_HASH_MISMATCH:
        return None
    holders = [
        holder
        for expected in slot.expected_hashes
        for holder in by_link.get((slot.pool_kind, expected), ())[:MAX_VALUES]
        if holder != index
    ]
    # One record in several slots: only a neighbour on the page is surely the predecessor.
    before = [holder for holder in holders if slots[holder].slot == slot.slot - 1]
    chosen = before if len(holders) > 1 else holders
    return chosen[0] if len(chosen) == 1 else None


def _top(index: int, parents: Mapping[int, int | None]) -> int:
    seen = {index}
    while (parent := parents[index]) is not None and parent not in seen:
        seen.add(parent)
        index = parent
    return index


def _link(slot: LoggedSlot) -> int | None:
    """The hash that the successor of a slot's record must carry."""
    if slot.is_write or slot.token is None or slot.chain_hash is None:
        return None
    return splitmix64_mix3(slot.chain_hash, slot.token, slot.position)


def _keep(values: dict[_Value, None], value: _Value | None) -> None:
    if value is not None and len(values) < MAX_VALUES:
        values[value] = None
