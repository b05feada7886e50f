"""What a comparison of two or three dumps is asked for, and what it says of each leg between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.comparison_choices import ComparedContent, MatchBy


class LegKind(StrEnum):
    """What lies between the two dumps of a leg."""

    TRANSFER = "transfer"
    """Another place, or nothing that the files tell: what is the same content must be the same KV."""
    RANKS = "ranks"
    """Another rank of the same engine: both must hold the same in the same slots."""
    STEPS = "steps"
    """Another step of the same pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What a user may ask of a comparison.

    Fields:
        match: which slots are the same.
        content: what of their KV is compared.
        tolerance: how far an element may lie from the other file's, as a fraction of the largest
            element of its slot and column; None = not at all.
        audit: scope, demands and limits, as those of an audit.
    """

    match: MatchBy = MatchBy.AUTO
    content: ComparedContent = ComparedContent.BOTH
    tolerance: float | None = None
    audit: AuditOptions = field(default_factory=AuditOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLeg:
    """What was and was not compared between two dumps of one pool.

    Fields:
        name: `A->B` or `B->C`, with what the files tell of the two: `A->B (device -> host)`.
        kind: what lies between them.
        left: path of the dump that is taken for right.
        right: path of the other.
        matched: slots of the right dump that were matched, by how: `content`, `request`, `slot`.
        left_slots: slots of the left dump that have a counterpart to look for.
        right_slots: slots of the right dump that have.
        left_unmatched: those of the left one without a counterpart.
        right_unmatched: those of the right one.
        slots_differing: matched slots whose record or KV differs.
        columns: KV columns compared.
        columns_left_out: why other columns were not, by column.
        unchecked: what the verdict says nothing about, one sentence each.
    """

    name: str
    kind: LegKind
    left: str
    right: str
    matched: Mapping[str, int]
    left_slots: int
    right_slots: int
    left_unmatched: int
    right_unmatched: int
    slots_differing: int
    columns: Sequence[str] = ()
    columns_left_out: Mapping[str, str] = field(default_factory=dict)
    unchecked: Sequence[str] = ()

    @property
    def letters(self) -> tuple[str, str]:
        """The letters of its dumps, which its name begins with."""
        left, right = self.name.split(maxsplit=1)[0].split("->")
        return left, right

    @property
    def num_matched(self) -> int:
        """Slots of the right dump that were matched, however."""
        return sum(self.matched.values())

    def to_dict(self) -> dict[str, Any]:
        """The leg in the JSON report."""
        return {
            "name": self.name,
            "kind": str(self.kind),
            "left": self.left,
            "right": self.right,
            "matched": {str(by): self.matched.get(by, 0) for by in MatchBy if by != MatchBy.AUTO},
            "left_slots": self.left_slots,
            "right_slots": self.right_slots,
            "left_unmatched": self.left_unmatched,
            "right_unmatched": self.right_unmatched,
            "slots_differing": self.slots_differing,
            "columns": list(self.columns),
            "columns_left_out": [
                {"column": name, "why": why} for name, why in self.columns_left_out.items()
            ],
            "unchecked": list(self.unchecked),
        }
