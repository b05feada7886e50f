"""KV211 content-not-of-position: a slot holds its own token, rotated for another position."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.identity import IdentityEvidence
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_view import MAX_CAUSES
from kvaudit.diagnosis.held_homes import NO_HOME, HeldHomes
from kvaudit.diagnosis.identity_facts import (
    identity_facts,
    name_of,
    ranges_of,
    request_of,
    tainting_finding,
)
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, at, counted

RULE = Rule(id="KV211", name="content-not-of-position", severity=Severity.ERROR)


def find(evidence: PoolEvidence) -> list[Finding]:
    """One finding a sequence and a shift: V says that the token is right, so K tells the position."""
    identity = evidence.identity
    if identity is None or not len(identity.rotation):
        return []
    # What came along with another text is that text's, and KV210 has it.
    along = HeldHomes(evidence=evidence, identity=identity).along
    own = replace(identity, rotation=identity.rotation.without(along != NO_HOME))
    return [_finding(evidence, own, members) for members in _groups(evidence, own)]


def _groups(evidence: PoolEvidence, identity: IdentityEvidence) -> list[NDArray[np.int64]]:
    """Rows of one sequence and one shift, shape [n] each, int64, in sequence order."""
    wrong, claims = identity.rotation, evidence.claims
    order = np.argsort(wrong.claims, kind="stable")
    numbers = claims.sequence_numbers[wrong.claims[order]]
    shifts = _shifts(evidence, identity)[order]
    groups: dict[tuple[int, int | None], list[int]] = {}
    told = wrong.positions[order] >= 0
    for member, number, shift, is_told in zip(
        order.tolist(), numbers.tolist(), shifts.tolist(), told.tolist(), strict=True
    ):
        groups.setdefault((number, shift if is_told else None), []).append(member)
    found = [np.array(members, dtype=np.int64) for members in groups.values()]
    if len(found) <= MAX_CAUSES:
        return found
    return [*found[:MAX_CAUSES], np.concatenate(found[MAX_CAUSES:])]


def _shifts(evidence: PoolEvidence, identity: IdentityEvidence) -> NDArray[np.int64]:
    """From the position that each row should have to the one that it has, shape [n], int64."""
    wrong = identity.rotation
    own = evidence.claims.positions[wrong.claims] - evidence.snapshot.position_offset
    return wrong.positions - own


def _finding(
    evidence: PoolEvidence, identity: IdentityEvidence, members: NDArray[np.int64]
) -> Finding:
    wrong, claims = identity.rotation, evidence.claims
    own = claims.positions[wrong.claims[members]] - evidence.snapshot.position_offset
    is_told = bool(wrong.positions[members[0]] >= 0)
    delta = int(wrong.positions[members[0]] - own[0])
    facts: dict[str, Any] = {
        **({"delta": delta} if is_told else {}),
        "ranges": ranges_of(evidence, wrong.claims[members], np.full(len(members), -1)),
        **identity_facts(identity, wrong.distances[members], of_position=True),
        "examples": [
            {
                "slot": int(evidence.snapshot.slots[wrong.rows[member]]),
                "request_id": name_of(evidence, int(wrong.claims[member])),
                "position": position,
                "token": int(claims.tokens[wrong.claims[member]]),
                **({"rotated_for": int(wrong.positions[member])} if is_told else {}),
            }
            for member, position in zip(
                members[:MAX_EXAMPLES].tolist(), own[:MAX_EXAMPLES].tolist(), strict=True
            )
        ],
    }
    claim = int(wrong.claims[members[0]])
    holds = (
        f"K of position {wrong.positions[members[0]]} ({delta:+,})"
        if is_told
        else "K of no position that is known"
    )
    return tainting_finding(
        RULE,
        evidence,
        f"{at(evidence.snapshot.slots[wrong.rows[members[0]]], evidence)} of "
        f"{request_of(evidence, claim)} holds its token {claims.tokens[claim]} of position {own[0]} "
        f"with {holds}; {counted(len(members), 'slot')} in all",
        rows=wrong.rows[members],
        facts=facts,
        alternatives=() if is_told else ("KV301",),
        settled_by=""
        if is_told
        else "the model's rotation: its table, or kvaudit.rope in the dump",
    )
