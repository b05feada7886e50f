"""KV403 violations-growing: a later dump of a pool has more failed rows than an earlier one."""

from __future__ import annotations

from shlex import quote
from typing import Any

import numpy as np

from kvaudit.core.comparison_evidence import LegEvidence, PoolAtStep
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import Hits, Rule, counted

RULE = Rule(id="KV403", name="violations-growing", severity=Severity.ERROR)


def find(evidence: LegEvidence) -> list[Finding]:
    """Compare how the pool fares in an audit of its own at either step."""
    if not evidence.states:
        return []
    earlier, later = sorted(evidence.states, key=lambda state: state.step)
    if later.num_failed <= earlier.num_failed:
        return []
    fresh = sorted(set(later.slots) - set(earlier.slots))
    facts: dict[str, Any] = {
        "steps": [earlier.step, later.step],
        "failed_rows": [earlier.num_failed, later.num_failed],
        "checked": [earlier.num_checked, later.num_checked],
    }
    hits = Hits(slots=np.array(fresh, dtype=np.int64), request_ids=later.request_ids)
    return [RULE.finding(evidence, _summary(earlier, later), hits=hits, facts=facts)]


def _summary(earlier: PoolAtStep, later: PoolAtStep) -> str:
    rows = f"{counted(later.num_failed, 'failed row')} at step {later.step}"
    tail = f"kvaudit verify {quote(later.path)} names them" if later.path else "an audit names them"
    if not earlier.num_failed:
        return f"{rows}, and none at step {earlier.step}: damage began between them; {tail}"
    before = f"{earlier.num_failed:,} at step {earlier.step}"
    return f"{rows}, and {before}: something still damages the pool; {tail}"
