"""A canary's ring and counters as named values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kvaudit.constants import VIOLATION_SLOT, VIOLATION_TAG, LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.fail_reason import reason_labels
from kvaudit.core.layout import SlotRanges
from kvaudit.core.log_line import tag_label
from kvaudit.core.ring_row import RingRow
from kvaudit.core.violation import hash_label
from kvaudit.render.labels import count_label

RowFacts = dict[str, Any]


def state_facts(state: CanaryState) -> dict[str, Any]:
    """Counters by tag, and the ring with its rows; JSON values only."""
    return {
        "file": state.path,
        "kind": "state",
        "key": state.key.given(),
        "violations": state.violation_write_index,
        "ring_capacity": state.ring_capacity,
        "lost": state.violation_write_index - len(state.ring),
        "tags": {tag.name: _tag_word(state, tag) for tag in state.tags},
        "ring": [_row_facts(RingRow.of(fields)) for fields in state.ring.tolist()],
    }


def ring_rows_of(state: CanaryState, slots: SlotRanges) -> Iterator[RowFacts]:
    """The ring's rows of these slots, in the ring's order."""
    for fields in state.ring[slots.mask(state.ring[:, VIOLATION_SLOT])].tolist():
        yield _row_facts(RingRow.of(fields))


def _tag_word(state: CanaryState, tag: LaunchTag) -> str:
    num_rows = int(np.count_nonzero(state.ring[:, VIOLATION_TAG] == tag))
    words = [
        count_label(state.kernel_run_counters.get(tag, 0), "launch", "launches"),
        count_label(state.slot_run_counters.get(tag, 0), "slot"),
        count_label(num_rows, "violation in the ring", "violations in the ring"),
    ]
    if tag in state.sweep_passes:
        words.append(count_label(state.sweep_passes[tag], "sweep"))
    if tag not in state.active_tags:
        words.append("not active")
    return ", ".join(words)


def _row_facts(row: RingRow) -> RowFacts:
    return {
        "slot": row.slot,
        "tag": tag_label(row.tag),
        "position": row.position,
        "token": row.token,
        "expected_token": row.expected_token,
        "chain_hash": hash_label(row.chain_hash),
        "expected_aux": hash_label(row.expected_aux),
        "reasons": list(reason_labels(row.reasons)),
    }
