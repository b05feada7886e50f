"""One leg of a comparison at its end: its rows, its counts, and what the rules say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.claims import Claims, claims_of
from kvaudit.core.comparison import ComparedLeg, CompareOptions, LegKind
from kvaudit.core.comparison_choices import LETTERS
from kvaudit.core.comparison_evidence import LegEvidence, PoolAtStep
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.finding import Finding
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation
from kvaudit.diagnosis.registry import diagnose_leg
from kvaudit.diagnosis.rule import Rule
from kvaudit.runner.bytes_pass import BytesResult
from kvaudit.runner.column_rows import column_violations
from kvaudit.runner.compare.leg_bytes import LegBytes
from kvaudit.runner.compare.legs import leg_name
from kvaudit.runner.compare.matching import Matching, num_distinct
from kvaudit.runner.compare.records import RecordDifferences, record_violations
from kvaudit.runner.compare.side import Side
from kvaudit.runner.compare.tables import compare_tables
from kvaudit.runner.compare.unchecked import unchecked
from kvaudit.runner.expectations import expectations_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LegResult:
    """What one leg's comparison counted and found.

    Fields:
        leg: what was and was not compared.
        left: the dump that is taken for right.
        right: the other.
        key: what its rows and findings name it by.
        matching: the matched slots.
        bytes: their KV.
        records: their records.
        violations: the first rows, of records and of columns.
        violations_total: rows, exact.
        findings: what the rules say.
        kv_bytes: KV bytes folded for all legs of the pool; with the first leg alone.
    """

    leg: ComparedLeg
    left: Side
    right: Side
    key: PoolKey
    matching: Matching
    bytes: LegBytes
    records: RecordDifferences
    violations: Sequence[Violation]
    violations_total: int
    findings: Sequence[Finding]
    kv_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Leg:
    """A leg that was compared, before the rules look at it.

    Fields:
        left: the dump that is taken for right.
        right: the other.
        key: what its rows and findings name it by.
        kind: what lies between them.
        bytes: the KV of its matched slots.
        records: their records.
        bad: rows of the right dump that differ, shape [num_rows], bool.
        states: audits of both, of a leg of steps.
    """

    left: Side
    right: Side
    key: PoolKey
    kind: LegKind
    bytes: LegBytes
    records: RecordDifferences
    bad: NDArray[np.bool_]
    states: Sequence[PoolAtStep]

    def result(
        self,
        options: CompareOptions,
        rules: Sequence[Rule],
        *,
        onward: tuple[LegBytes, NDArray[np.bool_]] | None,
        kv_bytes: int,
    ) -> LegResult:
        """Diagnose it, and put its rows together."""
        claims = self._claims()
        evidence = self._evidence(claims, onward)
        violations, total = self._violations(claims, max_rows=options.audit.max_violations)
        return LegResult(
            leg=self._leg(evidence),
            left=self.left,
            right=self.right,
            key=self.key,
            matching=self.bytes.matching,
            bytes=self.bytes,
            records=self.records,
            violations=violations,
            violations_total=total,
            findings=diagnose_leg(evidence, rules),
            kv_bytes=kv_bytes,
        )

    def _evidence(
        self, claims: Claims, onward: tuple[LegBytes, NDArray[np.bool_]] | None
    ) -> LegEvidence:
        matching = self.bytes.matching
        tables, num_tables = compare_tables(
            self.left, self.right, matching.requests, kind=self.kind
        )
        return LegEvidence(
            name=leg_name(self.left, self.right),
            kind=self.kind,
            left=self.left.snapshot,
            right=replace(self.right.snapshot, key=self.key),
            pairs=matching.pairs,
            differing=self.bytes.differing,
            sources=self.bytes.sources,
            zero=self.bytes.zero,
            records=self.records.pairs,
            reasons=self.records.reasons,
            tables=tables,
            num_tables=num_tables,
            num_differing=int(np.count_nonzero(self.bad)),
            num_carried_on=_carried_on(self.bad, onward),
            carried_to="" if onward is None else LETTERS[self.bytes.right + 1],
            left_content=self.left.content,
            right_content=self.right.content,
            claims=claims,
            states=self.states,
        )

    def _violations(self, claims: Claims, *, max_rows: int) -> tuple[list[Violation], int]:
        """The first rows of records and of columns, and how many there are of both."""
        pairs, snapshot = self.bytes.matching.pairs, replace(self.right.snapshot, key=self.key)
        differing = np.zeros(snapshot.num_rows, dtype=np.bool_)
        differing[pairs.right_rows[self.bytes.differs]] = True
        columns = BytesResult(
            differing_rows=differing,
            differences={
                name: pairs.right_rows[found] for name, found in self.bytes.differing.items()
            },
        )
        rows = record_violations(
            self.records,
            self.left,
            self.right,
            key=self.key,
            pairs=pairs,
            claims=claims,
            max_rows=max_rows,
        )
        rows += column_violations(columns, snapshot, sources=claims.sources, max_rows=max_rows)
        num_records = sum(len(found) for found, _ in self.records.by_buffer.values())
        return rows, num_records + int(np.count_nonzero(differing))

    def _claims(self) -> Claims:
        """What the right dump's expectations say of its slots; nothing of one without a difference."""
        sources = expectations_of(self.right.pool, ALL_ENTRIES).sources if self.bad.any() else ()
        return claims_of(sources, self.right.snapshot)

    def _leg(self, evidence: LegEvidence) -> ComparedLeg:
        matching, columns = self.bytes.matching, self.bytes.columns
        matched = num_distinct(matching.pairs.right_rows)
        wanted = int(np.count_nonzero(matching.wanted))
        due = int(np.count_nonzero(matching.due))
        return ComparedLeg(
            name=evidence.name,
            kind=self.kind,
            left=self.left.snapshot.path,
            right=self.right.snapshot.path,
            matched=matching.by,
            left_slots=due,
            right_slots=wanted,
            left_unmatched=due - int(np.count_nonzero(matching.found)),
            right_unmatched=wanted - matched,
            slots_differing=evidence.num_differing,
            columns=columns.compared,
            columns_left_out=columns.left_out,
            unchecked=unchecked(
                self.left, self.right, matching=matching, bytes_=self.bytes, states=self.states
            ),
        )


def _carried_on(bad: NDArray[np.bool_], onward: tuple[LegBytes, NDArray[np.bool_]] | None) -> int:
    """Bad rows of a right dump that the next leg finds alike in the dump behind it."""
    if onward is None:
        return 0
    leg, next_bad = onward
    pairs = leg.matching.pairs
    alike = ~next_bad[pairs.right_rows] & ~leg.restored
    return int(np.unique(pairs.left_rows[bad[pairs.left_rows] & alike]).size)
