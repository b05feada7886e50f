"""KV104 length-mismatch: kv_len reaches past a sequence's slots or past its tokens."""

from __future__ import annotations

import numpy as np

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.held_slots import JUDGED_STATES
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more

RULE = Rule(id="KV104", name="length-mismatch", severity=Severity.ERROR)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Compare three lengths of every judged sequence; more tokens or slots than kv_len are fine."""
    sequences = evidence.sequences
    if sequences is None:
        return []
    slots_end = sequences.start_positions + np.diff(sequences.slot_offsets)
    num_tokens = np.diff(sequences.token_offsets)
    wrong = (sequences.kv_lens > slots_end) | (sequences.kv_lens > num_tokens)
    judged = np.array([state in JUDGED_STATES for state in sequences.states], dtype=np.bool_)
    wrong &= judged & evidence.scope.admits_requests(sequences.request_ids)
    members = np.flatnonzero(wrong).tolist()
    if not members:
        return []
    examples = tuple(
        {
            "request_id": sequences.request_ids[idx],
            "kv_len": int(sequences.kv_lens[idx]),
            "slots_end": int(slots_end[idx]),
            "num_tokens": int(num_tokens[idx]),
        }
        for idx in members[:MAX_EXAMPLES]
    )
    first = members[0]
    kv_len = sequences.kv_lens[first]
    short = []
    if kv_len > slots_end[first]:
        short.append(f"its slots end at position {slots_end[first]}")
    if kv_len > num_tokens[first]:
        short.append(f"it has {num_tokens[first]} tokens")
    summary = (
        f"{sequences.request_ids[first]} has kv_len {kv_len}, but {' and '.join(short)}"
        f"{and_more(len(members), 'sequence')}"
    )
    names = [sequences.request_ids[idx] for idx in members]
    facts = {"num_sequences": len(members)}
    return [
        RULE.finding(
            evidence, summary, hits=Hits(request_ids=names, examples=examples), facts=facts
        )
    ]
