"""Sequences into their file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kvaudit.core.sequences import Sequences
from kvaudit.errors import ValuesInvalid
from kvaudit.formats.arrow_writer import fixed_width_array, list_array, write_arrow
from kvaudit.formats.pairing_key import key_metadata
from kvaudit.formats.schema import INT64, KEY_PREFIX, STRING, FileKind


def write_sequences(
    path: str | os.PathLike[str],
    sequences: Sequences,
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write sequences with their digests, complete or not at all.

    Args:
        path: the file; an existing one is replaced. Mode 0600: tokens are prompts in clear.
        sequences: what to write.
        metadata: further metadata keys, without the `kvaudit.` prefix.

    Raises:
        FileUnwritable: the system refused.
        ValuesInvalid: the parts have not one entry a sequence.
    """
    columns = _columns(sequences)
    for name, array in columns.items():
        if len(array) != sequences.num_sequences:
            raise ValuesInvalid(
                f"{len(array)} entries for {sequences.num_sequences} sequences", column=name
            )
    full = {KEY_PREFIX + key: value for key, value in (metadata or {}).items()}
    full.update(key_metadata(sequences.key))
    write_arrow(
        path,
        kind=FileKind.SEQUENCES,
        fields=[
            pa.field(name, array.type, nullable=name in ("state", "extra_key"))
            for name, array in columns.items()
        ],
        metadata=full,
        num_rows=sequences.num_sequences,
        batches=[list(columns.values())],
    )


def _columns(sequences: Sequences) -> dict[str, Any]:
    columns = {
        "request_id": pa.array(list(sequences.request_ids), type=STRING),
        "tokens": list_array(sequences.token_offsets, sequences.tokens),
        "slots": list_array(sequences.slot_offsets, sequences.slots),
        "kv_len": fixed_width_array(sequences.kv_lens, INT64),
        "start_position": fixed_width_array(sequences.start_positions, INT64),
        "prompt_len": fixed_width_array(sequences.prompt_lens, INT64),
    }
    if any(state is not None for state in sequences.states):
        columns["state"] = pa.array([state and str(state) for state in sequences.states], STRING)
    if any(key is not None for key in sequences.extra_keys):
        columns["extra_key"] = pa.array(list(sequences.extra_keys), type=STRING)
    return columns
