"""The engine of the diagnosis: failed rows in, findings out, each row explained once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.core.finding import Finding
from kvaudit.core.tainted_requests import tainted_requests
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.rule import Hits

Explainer = Callable[[Failures], list[Explanation]]

# What a fault of the index makes of the records at its slots.
_OF_INDEX: Final[Mapping[str, FailReason]] = {
    "KV101": RECORD_REASONS | FailReason.VERIFY_REAL_KV_HASH_MISMATCH,
    "KV102": FailReason.SLOT_OUT_OF_RANGE | FailReason.PREV_SLOT_OUT_OF_RANGE,
    "KV103": FailReason.VERIFY_CHAIN_HASH_MISMATCH,
}


def explain_rows(
    evidence: PoolEvidence, explainers: Sequence[Explainer], findings: Sequence[Finding]
) -> list[Finding]:
    """Explain the failed rows of a pool.

    What the index already explains is no rule's any more; then each explainer, in the order given,
    sees what those before it left open. A chain check that failed behind a bad row is a
    consequence of that row. Rows that nobody explains stay rows.

    Args:
        evidence: the pool.
        explainers: the rules, the surest first.
        findings: what the rules of the index found.

    Returns:
        the findings of the index, with how many rows they explain, then a finding a cause: those
        that explain most first.
    """
    if not evidence.failed and not evidence.differing:
        return list(findings)
    failures = Failures(evidence)
    indexed = [_of_index(failures, finding) for finding in findings]
    causes: dict[tuple[Hashable, ...], _Cause] = {}
    for explain in explainers:
        for explanation in explain(failures):
            key = (explanation.rule.id, explanation.is_alternative, explanation.cause)
            causes.setdefault(key, _Cause(explanation)).add(failures, explanation)
    found = [cause.finding(evidence) for cause in causes.values()]
    explaining = [finding for finding in found if finding.evidence["rows"]]
    return indexed + sorted(explaining, key=lambda finding: -int(finding.evidence["rows"]))


def _of_index(failures: Failures, finding: Finding) -> Finding:
    """A finding of the index, with the rows that it explains."""
    reasons = _OF_INDEX.get(finding.rule)
    if reasons is None or not finding.slots:
        return finding
    failed, slots = failures.evidence.failed, np.array(finding.slots, dtype=np.int64)
    closed = failures.close(np.flatnonzero(np.isin(failed.slots, slots)), reasons)
    if reasons & FailReason.VERIFY_TOKEN_MISMATCH:
        rows = failures.evidence.snapshot.rows_of(slots)
        closed = np.union1d(closed, failures.fold(rows[rows >= 0]))
    if not closed.size:
        return finding
    return replace(finding, evidence={**finding.evidence, "rows": len(closed)})


@dataclass(slots=True)
class _Cause:
    """One cause over all launches.

    Fields:
        first: the explanation that names it.
        failed: numbers of the failed rows that it explains, each once.
        roots: rows that it made wrong.
        column_rows: rows whose column differences it explains, once a slot.
    """

    first: Explanation
    failed: list[NDArray[np.int64]] = field(default_factory=list)
    roots: list[NDArray[np.int64]] = field(default_factory=list)
    column_rows: list[NDArray[np.int64]] = field(default_factory=list)

    def add(self, failures: Failures, explanation: Explanation) -> None:
        """Take in what one launch shows of it."""
        self.failed.append(failures.close(explanation.failed, explanation.reasons))
        if explanation.breaks_chain:
            self.failed.append(failures.fold(explanation.roots))
        self.roots.append(explanation.roots)
        for column, rows in explanation.columns.items():
            failures.close_columns(column, rows)
            self.column_rows.append(rows)

    def finding(self, evidence: PoolEvidence) -> Finding:
        """The cause as a finding; its `rows` are those of the report that it explains."""
        first, failed = self.first, _distinct(self.failed)
        roots = evidence.snapshot.hashed_with(_distinct(self.roots))
        tags = [LaunchTag(tag).name for tag in np.unique(evidence.failed.tags[failed]).tolist()]
        facts: dict[str, Any] = {"rows": len(failed) + len(_distinct(self.column_rows))}
        if tags:
            facts["launches"] = tags
        hits = Hits(
            slots=evidence.snapshot.slots[roots],
            request_ids=tainted_requests(evidence.claims, roots),
        )
        finding = first.rule.finding(
            evidence, first.summary, hits=hits, facts={**facts, **first.facts}
        )
        return replace(
            finding,
            severity=None if first.is_alternative else finding.severity,
            alternatives=list(first.alternatives),
            settled_by=first.settled_by,
        )


def _distinct(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
