"""KV210 content-not-of-token: the layer-0 V of a slot is not that of its own token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.identity import Content, IdentityEvidence
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.held_groups import Cause, HeldGroup, held_groups
from kvaudit.diagnosis.held_homes import NO_HOME, HeldHomes
from kvaudit.diagnosis.identity_facts import (
    identity_facts,
    name_of,
    names_of,
    ranges_of,
    request_of,
    tainting_finding,
)
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, at, counted

RULE = Rule(id="KV210", name="content-not-of-token", severity=Severity.ERROR)

_OPEN: Final = (Cause.LATE, Cause.STALE)
_SETTLED_BY: Final = (
    "the sequences that held these slots before, as state finished, or a dump of an earlier step"
)


def find(evidence: PoolEvidence) -> list[Finding]:
    """One finding a cause. V of layer 0 depends on the token alone: no stamp is needed."""
    identity = evidence.identity
    if identity is None or not len(identity.content):
        return []
    if identity.whole_pool:
        return [_of_whole_pool(evidence, identity)]
    held = HeldHomes(evidence=evidence, identity=identity)
    return [_finding(held, group) for group in held_groups(held)]


def _of_whole_pool(evidence: PoolEvidence, identity: IdentityEvidence) -> Finding:
    wrong = identity.content
    return tainting_finding(
        RULE,
        evidence,
        f"{counted(len(wrong), 'slot')} fail at once: {identity.whole_pool}",
        rows=wrong.rows,
        facts={"cause": identity.whole_pool, **identity_facts(identity, wrong.distances)},
    )


def _finding(held: HeldHomes, group: HeldGroup) -> Finding:
    evidence, wrong, members = held.evidence, held.wrong, group.members
    along = held.identity.rotation.rows[np.isin(held.along, members)]
    placed = group.homes != NO_HOME
    owners = names_of(evidence, group.homes[placed])
    facts: dict[str, Any] = {
        "cause": str(group.cause),
        **({"content_of": owners} if owners else {}),
        "ranges": ranges_of(evidence, wrong.claims[members], group.homes),
        **({"types": sorted(set(wrong.types[members].tolist()))} if _is_typed(group) else {}),
        **identity_facts(held.identity, wrong.distances[members]),
        **_confidence(held, members),
        "examples": _examples(held, group),
    }
    is_open = group.cause in _OPEN and not placed.any()
    return tainting_finding(
        RULE,
        evidence,
        _summary(held, group, owners, num_slots=len(members) + len(along)),
        rows=np.concatenate((wrong.rows[members], along)),
        facts=facts,
        alternatives=("KV202", "KV203") if is_open else (),
        settled_by=_SETTLED_BY if is_open else "",
    )


def _confidence(held: HeldHomes, members: NDArray[np.int64]) -> dict[str, Any]:
    """On how many agreeing rows the least sure of some rows rests; nothing where a model says it."""
    votes, against = held.wrong.votes[members], held.wrong.against[members]
    if not votes.all():
        return {}
    least = int((votes / (votes + against)).argmin())
    return {"votes": int(votes[least]), "votes_against": int(against[least])}


def _is_typed(group: HeldGroup) -> bool:
    return group.cause is Cause.OTHER_TYPE


def _summary(held: HeldHomes, group: HeldGroup, owners: Sequence[str], *, num_slots: int) -> str:
    """One sentence: the first slot, what it should hold, what it holds, and whose that is."""
    evidence, wrong = held.evidence, held.wrong
    member, home = int(group.members[0]), int(group.homes[0])
    claim = int(wrong.claims[member])
    token, position = held.claims.tokens[claim], _position(held, claim)
    if wrong.contents[member] == Content.FOREIGN:
        holds = f"token {wrong.tokens[member]}"
    elif wrong.types[member]:
        holds = f"it as {wrong.types[member]}"
    else:
        holds = str(wrong.contents[member])
    if home != NO_HOME:
        holds += f" of {request_of(evidence, home)} at position {_position(held, home)}"
    elif owners:
        holds += f", as {owners[0]} does nearby"
    return (
        f"{group.cause}: {at(evidence.snapshot.slots[wrong.rows[member]], evidence)} of "
        f"{request_of(evidence, claim)} should hold token {token} at position {position} and holds "
        f"{holds}; {counted(num_slots, 'slot')} in all"
    )


def _position(held: HeldHomes, claim: int) -> int:
    return int(held.claims.positions[claim]) - held.evidence.snapshot.position_offset


def _examples(held: HeldHomes, group: HeldGroup) -> list[dict[str, Any]]:
    """The first rows of a group as JSON values."""
    evidence, wrong, claims = held.evidence, held.wrong, held.claims
    shown = np.arange(min(len(group.members), MAX_EXAMPLES)).tolist()
    examples = []
    for number in shown:
        member, home = int(group.members[number]), int(group.homes[number])
        claim = int(wrong.claims[member])
        example: dict[str, Any] = {
            "slot": int(evidence.snapshot.slots[wrong.rows[member]]),
            "request_id": name_of(evidence, claim),
            "position": _position(held, claim),
            "token": int(claims.tokens[claim]),
            "holds": str(wrong.contents[member]),
        }
        if wrong.tokens[member] >= 0:
            example["holds_token"] = int(wrong.tokens[member])
        if wrong.positions[member] >= 0:
            example["rotated_for"] = int(wrong.positions[member])
        if home != NO_HOME:
            example["content_of"] = name_of(evidence, home)
            example["content_position"] = _position(held, home)
        examples.append(example)
    return examples
