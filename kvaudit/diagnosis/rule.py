"""What every rule shares: its name, its weight, and the form of its findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import MAX_LISTED, Finding
from kvaudit.core.held_slots import HeldSlots
from kvaudit.core.layout import slot_label
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import DigestGrain, Snapshot

# Examples a finding spells out.
MAX_EXAMPLES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hits:
    """Where a rule saw its fault.

    Fields:
        slots: slots concerned, in any order, repeated or not, shape [n], int64.
        request_ids: requests concerned, in any order, repeated or not.
        examples: the first few, as JSON values.
    """

    slots: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    request_ids: Iterable[str] = ()
    examples: tuple[Mapping[str, Any], ...] = ()


class EvidenceOfPool(Protocol):
    """Evidence that a finding can be of."""

    @property
    def snapshot(self) -> Snapshot:
        """The pool."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule's identity.

    Fields:
        id: stable id, such as `KV101`.
        name: stable name, such as `slot-alias`.
        severity: weight of its findings.
    """

    id: str
    name: str
    severity: Severity

    def finding(
        self,
        evidence: EvidenceOfPool,
        summary: str,
        *,
        hits: Hits,
        facts: Mapping[str, Any] | None = None,
    ) -> Finding:
        """A finding of this rule in the evidence's pool."""
        slots = np.unique(hits.slots)
        counts = {"num_slots": len(slots)} if len(slots) else {}
        examples = {"examples": [dict(example) for example in hits.examples]}
        return Finding(
            rule=self.id,
            name=self.name,
            severity=self.severity,
            summary=summary,
            slots=slots.tolist(),
            request_ids=list(dict.fromkeys(hits.request_ids))[:MAX_LISTED],
            key=evidence.snapshot.key,
            evidence={**counts, **(facts or {}), **(examples if hits.examples else {})},
        )


def held_examples(held: HeldSlots, elements: NDArray[np.int64]) -> tuple[dict[str, Any], ...]:
    """The first of the elements as JSON values: slot, request and position."""
    shown = elements[:MAX_EXAMPLES]
    return tuple(
        {"slot": slot, "request_id": name, "position": position}
        for slot, name, position in zip(
            held.slots[shown].tolist(),
            held.request_ids_of(shown),
            held.positions_of(shown).tolist(),
            strict=True,
        )
    )


def at(slot: int, evidence: PoolEvidence) -> str:
    """A slot in both numberings."""
    return slot_label(int(slot), evidence.snapshot.page_size)


def content_at(slot: int, evidence: PoolEvidence) -> str:
    """What the hash at a slot is of: the slot, or its page where digests are of pages."""
    snapshot = evidence.snapshot
    if snapshot.digest_grain is DigestGrain.PAGE:
        return f"page {int(slot) // snapshot.page_size}"
    return at(slot, evidence)


def hashes_counted(count: int, evidence: PoolEvidence) -> str:
    """`2 slots`, or `2 pages` where digests are of pages."""
    of_pages = evidence.snapshot.digest_grain is DigestGrain.PAGE
    return counted(count, "page" if of_pages else "slot")


def and_more(count: int, noun: str) -> str:
    """`; 3 slots in all` where there is more than the one that the summary names."""
    return f"; {counted(count, noun)} in all" if count > 1 else ""


def counted(count: int, noun: str) -> str:
    """`1 slot`, `2,048 slots`."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"
