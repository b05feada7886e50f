"""Everything known of one slot, before any screen: what it holds, and what it should hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kvaudit.core.finding import Finding
from kvaudit.core.report import BackendChoice, InputFile, Timing
from kvaudit.core.slot_facts import ByteComparison, ColumnDigests, ContentCopy, SlotRecord
from kvaudit.core.slot_readers import Neighbour, SlotClaim
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation

BLAME_SCHEMA: Final = "kvaudit.blame/1"


class Relation(StrEnum):
    """What a finding has to do with a slot."""

    NAMES = "names it"
    BEFORE = "names a slot before it"
    TAINTS = "taints a request that reads it"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedFinding:
    """A finding of the pool's audit that concerns a slot.

    Fields:
        relation: why it does.
        finding: the finding.
    """

    relation: Relation
    finding: Finding

    def to_dict(self) -> dict[str, Any]:
        """The finding in the JSON document, as in a report."""
        return {"relation": str(self.relation), **self.finding.to_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameReport:
    """All that a dump says of one slot. Slots are in the engine's numbering.

    Fields:
        path: the snapshot, as the user wrote it.
        inputs: the files read.
        key: the pool.
        page_size: slots a page.
        num_slots: slots of the pool.
        slot: the slot.
        is_reserved: whether it is one of the slots that hold no sequence.
        has_expectations: whether anything says who reads the pool's slots.
        claims: who expects something of it; what is judged comes first.
        num_claims: how many do, exact.
        records: its records, a record column each.
        columns: the digests of its KV columns, in layer order.
        violations: its failed rows, as in a report.
        findings: what the rules say, those that name it first.
        neighbours: the slots beside it, in the pool and in its chains.
        copies: slots that share content with it, those that share most first.
        num_copies: how many do, of what was searched, exact.
        searched_columns: KV columns whose content was searched for in every slot.
        comparisons: the words of the columns that differ.
        evidence: what the allocator and the engine say of it, by column; JSON values only.
        not_compared: what could not be compared, and why, a sentence each.
        backend: who computed it.
        self_check: `passed`: a planted bad entry was caught.
        timing: how long it took.
    """

    path: str
    inputs: Sequence[InputFile] = ()
    key: PoolKey
    page_size: int
    num_slots: int
    slot: int
    is_reserved: bool = False
    has_expectations: bool
    claims: Sequence[SlotClaim] = ()
    num_claims: int = 0
    records: Sequence[SlotRecord] = ()
    columns: Sequence[ColumnDigests] = ()
    violations: Sequence[Violation] = ()
    findings: Sequence[RelatedFinding] = ()
    neighbours: Sequence[Neighbour] = ()
    copies: Sequence[ContentCopy] = ()
    num_copies: int = 0
    searched_columns: Sequence[str] = ()
    comparisons: Sequence[ByteComparison] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    not_compared: Sequence[str] = ()
    backend: BackendChoice
    self_check: str
    timing: Timing

    def related(self, relation: Relation) -> list[Finding]:
        """The findings of one relation, in the report's order."""
        return [found.finding for found in self.findings if found.relation is relation]

    def to_dict(self) -> dict[str, Any]:
        """One JSON document, JSON values only."""
        return {
            "schema": BLAME_SCHEMA,
            "inputs": [file.to_dict() for file in self.inputs],
            **self.key.place(),
            "step": self.key.step,
            "num_slots": self.num_slots,
            "slot": self.slot,
            "page": self.slot // self.page_size,
            "page_offset": self.slot % self.page_size,
            "reserved": self.is_reserved,
            "has_expectations": self.has_expectations,
            "claims": {
                "total": self.num_claims,
                "rows": [claim.to_dict() for claim in self.claims],
            },
            "records": [record.to_dict() for record in self.records],
            "columns": [column.to_dict() for column in self.columns],
            "violations": [row.to_dict() for row in self.violations],
            "findings": [found.to_dict() for found in self.findings],
            "neighbours": [neighbour.to_dict() for neighbour in self.neighbours],
            "copies": {
                "total": self.num_copies,
                "searched_columns": list(self.searched_columns),
                "rows": [copy.to_dict() for copy in self.copies],
            },
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "evidence": dict(self.evidence),
            "not_compared": list(self.not_compared),
            "backend": self.backend.to_dict(),
            "self_check": self.self_check,
            "timing": self.timing.to_dict(),
        }
