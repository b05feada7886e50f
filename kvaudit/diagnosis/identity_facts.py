"""What the rules on layer-0 content share: how they name rows, and what they say of how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.identity import IdentityEvidence, Threshold
from kvaudit.core.tainted_requests import tainted_requests
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule

_DIGITS: Final = 4
# Tokens of a range that are spelled out.
_MAX_TOKENS: Final = 16


def tainting_finding(
    rule: Rule,
    evidence: PoolEvidence,
    summary: str,
    *,
    rows: NDArray[np.int64],
    facts: Mapping[str, Any],
    alternatives: Sequence[str] = (),
    settled_by: str = "",
) -> Finding:
    """A finding of bad rows, shape [n], int64, whose requests are those that read them."""
    hits = Hits(
        slots=evidence.snapshot.slots[rows],
        request_ids=tainted_requests(evidence.claims, rows),
    )
    finding = rule.finding(evidence, summary, hits=hits, facts=facts)
    return replace(finding, alternatives=list(alternatives), settled_by=settled_by)


def identity_facts(
    identity: IdentityEvidence, distances: NDArray[np.float64], *, of_position: bool = False
) -> dict[str, Any]:
    """Where the expected rows come from, the threshold, and how far from it the rows are."""
    threshold: Threshold | None = identity.of_position if of_position else identity.of_token
    finite = distances[np.isfinite(distances)]
    facts: dict[str, Any] = {"judged_by": str(identity.source)}
    if threshold is not None:
        facts |= threshold.to_dict()
    if finite.size:
        facts["distances"] = [
            round(float(finite.min()), _DIGITS),
            round(float(finite.max()), _DIGITS),
        ]
    return facts


def name_of(evidence: PoolEvidence, claim: int) -> str | None:
    """The request of a claim; None where its source does not say."""
    return evidence.claims.request_ids_of(np.array([claim]))[0]


def request_of(evidence: PoolEvidence, claim: int) -> str:
    """The request of a claim for people: `request A`, or `a request without a name`."""
    name = name_of(evidence, claim)
    return "a request without a name" if name is None else f"request {name}"


def names_of(evidence: PoolEvidence, claims: NDArray[np.int64]) -> list[str]:
    """The different requests of some claims, in the order of these, at most a few."""
    numbers = evidence.claims.sequence_numbers[claims]
    _, firsts = np.unique(numbers, return_index=True)
    names = evidence.claims.request_ids_of(claims[np.sort(firsts)])
    return list(dict.fromkeys(name for name in names if name is not None))[:MAX_EXAMPLES]


def ranges_of(
    evidence: PoolEvidence, claims: NDArray[np.int64], homes: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Where rows lie, in runs of positions of one sequence, each with the positions that it holds.

    Args:
        evidence: the pool.
        claims: the claims of the rows, shape [n], int64, in sequence order.
        homes: the claim that each row's content fits, shape [n], int64; -1 where none does.

    Returns:
        the first few: request_id, positions [first, last], slots [first, last], their first tokens,
        and where the content is of one place, content_of, content_positions and content_tokens.
    """
    held = evidence.claims
    offset = evidence.snapshot.position_offset
    numbers = held.sequence_numbers
    shifts = np.where(homes >= 0, homes - claims, 0)
    splits = (numbers[claims[1:]] != numbers[claims[:-1]]) | (shifts[1:] != shifts[:-1])
    splits |= claims[1:] - claims[:-1] > evidence.snapshot.page_size
    ranges = []
    for part in np.split(np.arange(len(claims)), np.flatnonzero(splits) + 1)[:MAX_EXAMPLES]:
        first, last = claims[part[0]], claims[part[-1]]
        found: dict[str, Any] = {
            "request_id": held.request_ids_of(np.array([first]))[0],
            "positions": [int(held.positions[first]) - offset, int(held.positions[last]) - offset],
            "slots": [int(held.slots[first]), int(held.slots[last])],
            "num_slots": len(part),
            "tokens": held.tokens[claims[part[:_MAX_TOKENS]]].tolist(),
        }
        if homes[part[0]] >= 0:
            ends = homes[part[[0, -1]]]
            found["content_of"] = held.request_ids_of(ends[:1])[0]
            found["content_positions"] = (held.positions[ends] - offset).tolist()
            found["content_tokens"] = held.tokens[homes[part[:_MAX_TOKENS]]].tolist()
        ranges.append(found)
    return ranges
