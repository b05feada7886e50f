"""What a file is and holds, as named values: `show` prints them as text or as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kvaudit.constants import LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.kv_column import KvColumn
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.plan import PlanDump
from kvaudit.core.recorded_step import Trace
from kvaudit.core.rope import Rope
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import DigestGrain, Snapshot
from kvaudit.render.labels import column_labels
from kvaudit.render.state_facts import state_facts
from kvaudit.render.table_facts import rope_word, table_facts
from kvaudit.render.trace_facts import trace_facts

Facts = dict[str, Any]


def file_facts(
    content: Snapshot | Sequences | PlanDump | CanaryState | Layer0Table | Trace,
) -> Facts:
    """Kind, pairing key, geometry, columns and rows; JSON values only.

    Raises:
        InputError: a row of a trace is not what the format says.
    """
    if isinstance(content, Snapshot):
        return _snapshot_facts(content)
    if isinstance(content, Sequences):
        return _sequences_facts(content)
    if isinstance(content, CanaryState):
        return state_facts(content)
    if isinstance(content, Layer0Table):
        return table_facts(content)
    if isinstance(content, PlanDump):
        return _plan_facts(content)
    return trace_facts(content)


def _snapshot_facts(snapshot: Snapshot) -> Facts:
    slots = snapshot.slots
    span = f"{slots[0]}-{slots[-1]}" if snapshot.num_rows else "none"
    return {
        "file": snapshot.path,
        "kind": "snapshot",
        "key": snapshot.key.given(),
        "rows": _num_file_rows(snapshot),
        "slots": f"{span}{'' if snapshot.is_dense else ', sparse'} of {snapshot.num_slots}",
        "page_size": snapshot.page_size,
        "reserved_slots": str(snapshot.reserved_slots),
        "at": str(snapshot.at),
        "real_kv_hash_mode": snapshot.real_kv_hash_mode.name.lower(),
        "stamped_columns": list(snapshot.stamped_columns),
        "token_offset": snapshot.token_offset,
        "position_offset": snapshot.position_offset,
        "window": snapshot.window,
        "records": {
            name: f"{np.count_nonzero(column.read().any(axis=1))} of {snapshot.num_rows} stamped"
            for name, column in snapshot.canary.items()
        },
        "kv": _kv_facts(snapshot.kv.values()),
        "stamped": column_labels(list(snapshot.stamped))[1] or None,
        "digests": column_labels(list(snapshot.digests))[1] or None,
        "digest_grain": str(snapshot.digest_grain),
        "evidence": list(snapshot.evidence),
        "checksummed": snapshot.checksummed,
        "metadata": {
            key: rope_word(Rope.from_json(text)) if key == "rope" else text
            for key, text in snapshot.metadata.items()
        },
    }


def _num_file_rows(snapshot: Snapshot) -> int:
    """Rows of the file: a row is a slot, or a page where digests are of pages."""
    if snapshot.digest_grain is DigestGrain.SLOT:
        return snapshot.num_rows
    return len(np.unique(snapshot.slots // snapshot.page_size))


def _kv_facts(columns: Iterable[KvColumn]) -> Facts:
    """Columns of one shape in one item."""
    shapes: dict[str, list[str]] = {}
    for column in columns:
        shape = f"{column.dtype or 'dtype unknown'}, {column.row_bytes} B a slot"
        if column.read_bytes != column.row_bytes:
            shape += f", digests cover {column.read_bytes} B"
        shapes.setdefault(shape, []).append(column.name)
    return {column_labels(names)[1]: f"({shape})" for shape, names in shapes.items()}


def _sequences_facts(sequences: Sequences) -> Facts:
    return {
        "file": sequences.path,
        "kind": "sequences",
        "key": sequences.key.given(),
        "rows": sequences.num_sequences,
        "tokens": len(sequences.tokens),
        "slots": len(sequences.slots),
        "sequences": {
            request_id: _sequence_word(sequences, sequence_idx)
            for sequence_idx, request_id in enumerate(sequences.request_ids)
        },
    }


def _sequence_word(sequences: Sequences, sequence_idx: int) -> str:
    start = int(sequences.start_positions[sequence_idx])
    kv_len = int(sequences.kv_lens[sequence_idx])
    words = [
        f"positions {start}-{kv_len - 1}" if kv_len > start else "no positions",
        f"{len(sequences.tokens_of(sequence_idx))} tokens",
        f"{len(sequences.slots_of(sequence_idx))} slots",
    ]
    if sequences.states[sequence_idx] is not None:
        words.append(str(sequences.states[sequence_idx]))
    if sequences.extra_keys[sequence_idx] is not None:
        words.append(f"extra key {sequences.extra_keys[sequence_idx]}")
    return ", ".join(words)


def _plan_facts(plan: PlanDump) -> Facts:
    return {
        "file": plan.path,
        "kind": "plan",
        "key": plan.key.given(),
        "rows": len(plan.launches),
        "launches": {
            f"step {launch.step} row {row}": ", ".join(
                [
                    _tags_word(launch.tags),
                    f"{len(launch.plan)} entries of {launch.plan.capacity}",
                    "enabled" if launch.plan.enable else "disabled",
                ]
            )
            for row, launch in enumerate(plan.launches)
        },
    }


def _tags_word(tags: Iterable[LaunchTag] | None) -> str:
    return "all tags" if tags is None else " ".join(tag.name for tag in tags)
