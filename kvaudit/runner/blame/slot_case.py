"""One slot's case: what it holds, what it should hold, and what stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_REAL_KV_HASH,
    RECORD_TOKEN,
)
from kvaudit.core.backend import Backend
from kvaudit.core.blame_report import BlameReport
from kvaudit.core.claims import claims_of
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import EntrySource
from kvaudit.core.finding import Finding
from kvaudit.core.identity import IdentityResult
from kvaudit.core.report import BackendChoice, Timing
from kvaudit.core.slot_facts import ContentCopy, SlotRecord
from kvaudit.core.slot_readers import SlotClaim
from kvaudit.core.violation import Violation
from kvaudit.runner.blame.content_copies import ContentCopies
from kvaudit.runner.blame.related_findings import related_findings
from kvaudit.runner.blame.slot_claims import claims_on
from kvaudit.runner.blame.slot_columns import SlotColumns
from kvaudit.runner.blame.slot_limits import SlotLimits
from kvaudit.runner.blame.slot_neighbours import SlotNeighbours
from kvaudit.runner.blame.word_comparison import WordComparison
from kvaudit.runner.row_space import RowSpace
from kvaudit.runner.slot_content import SlotContent

# Claims that are listed.
MAX_CLAIMS: Final = 1000


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotCase:
    """Gathers the facts of one slot of one pool.

    Fields:
        pool: the pool.
        slot: the slot, of which the snapshot has a row.
        backend: what computes.
        sources: everything that names entries.
        findings: what the audit of the pool found.
        failed: the failed rows of the slot.
        identity: what that audit made of layer 0.
    """

    pool: AuditedPool
    slot: int
    backend: Backend
    sources: Sequence[EntrySource]
    findings: Sequence[Finding]
    failed: Sequence[Violation]
    identity: IdentityResult

    def report(self, *, choice: BackendChoice, self_check: str, skip_bytes: bool) -> BlameReport:
        """All of it, but for the files and the time."""
        snapshot, copies = self.pool.snapshot, self._copies
        first = copies.first()
        return BlameReport(
            path=snapshot.path,
            key=snapshot.key,
            page_size=snapshot.page_size,
            num_slots=snapshot.num_slots,
            slot=self.slot,
            is_reserved=self.slot in snapshot.reserved_slots,
            has_expectations=bool(self.sources),
            claims=self._claims,
            num_claims=self._num_claims(),
            records=self._slot_records,
            columns=self._columns.digests,
            violations=self.failed,
            findings=related_findings(
                self.findings, self.slot, claims=self._claims, failed=self.failed
            ),
            neighbours=self._neighbours.all(self._claims),
            copies=self._with_readers(first),
            num_copies=len(copies.rows),
            searched_columns=copies.searched,
            comparisons=WordComparison(snapshot=snapshot, row=self._row, copies=first).compare(
                self._columns.digests
            ),
            evidence={name: self._plain(name) for name in snapshot.evidence},
            not_compared=SlotLimits(
                pool=self.pool,
                slot=self.slot,
                claims=self._claims,
                records=self._slot_records,
                columns=self._columns.digests,
                identity=self.identity,
            ).sentences(searched=copies.searched, skip_bytes=skip_bytes),
            backend=choice,
            self_check=self_check,
            timing=Timing(seconds=0.0, kv_bytes=0),
        )

    @cached_property
    def _row(self) -> int:
        return int(self.pool.snapshot.rows_of(np.array([self.slot], dtype=np.int64))[0])

    @cached_property
    def _claims(self) -> list[SlotClaim]:
        """The first claims on the slot."""
        found = claims_on(self.slot, self.pool, slot_hashes=self._slot_hashes)
        return list(islice(found, MAX_CLAIMS))

    def _num_claims(self) -> int:
        if len(self._claims) < MAX_CLAIMS:
            return len(self._claims)
        return sum(1 for _ in claims_on(self.slot, self.pool, slot_hashes={}))

    @cached_property
    def _records(self) -> dict[str, NDArray[np.uint64]]:
        """Every record by record column, shape [num_rows, 4] each, uint64."""
        canary = self.pool.snapshot.canary
        return {buffer: column.read().view(np.uint64) for buffer, column in canary.items()}

    @cached_property
    def _slot_hashes(self) -> dict[str, NDArray[np.uint64]]:
        """slot_hash of each row by record column, shape [num_rows] each, uint64."""
        snapshot = self.pool.snapshot
        content = SlotContent(snapshot, space=RowSpace(snapshot), backend=self.backend)
        return {buffer: content.slot_hashes(buffer) for buffer in snapshot.canary}

    @cached_property
    def _columns(self) -> SlotColumns:
        return SlotColumns(snapshot=self.pool.snapshot, backend=self.backend, row=self._row)

    @cached_property
    def _slot_records(self) -> list[SlotRecord]:
        found = []
        for buffer, records in self._records.items():
            words = records[self._row].tolist()
            signed = records[self._row].view(np.int64).tolist()
            found.append(
                SlotRecord(
                    buffer=buffer,
                    token=signed[RECORD_TOKEN],
                    position=signed[RECORD_POSITION],
                    prev_hash=words[RECORD_PREV_HASH],
                    real_kv_hash=words[RECORD_REAL_KV_HASH],
                    slot_hash=int(self._slot_hashes[buffer][self._row]),
                    expected_real_kv_hash=self._columns.expected_real_kv_hash(buffer),
                )
            )
        return found

    @cached_property
    def _copies(self) -> ContentCopies:
        return ContentCopies(
            snapshot=self.pool.snapshot,
            backend=self.backend,
            row=self._row,
            columns=self._columns.digests,
            slot_hashes=self._slot_hashes,
        )

    @cached_property
    def _neighbours(self) -> SlotNeighbours:
        return SlotNeighbours(
            snapshot=self.pool.snapshot,
            row=self._row,
            claims=claims_of(self.sources, self.pool.snapshot),
            records=self._records,
            slot_hashes=self._slot_hashes,
        )

    def _with_readers(self, copies: Sequence[ContentCopy]) -> list[ContentCopy]:
        slots = np.array([copy.slot for copy in copies], dtype=np.int64)
        rows = self.pool.snapshot.rows_of(slots)
        readers = self._neighbours.readers_of(rows)
        return [
            replace(copy, readers=readers.get(row, []))
            for copy, row in zip(copies, rows.tolist(), strict=True)
        ]

    def _plain(self, name: str) -> Any:  # noqa: ANN401 - JSON values of several types
        """The slot's value of an evidence column."""
        value = self.pool.snapshot.evidence[name].read()[self._row]
        return value.item() if isinstance(value, np.generic) else value
