"""Sequences into their file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.sequences import Sequences
from kvaudit.errors import ValuesInvalid
from kvaudit.formats.arrow_writer import (
    fixed_width_array,
    integers,
    list_array,
    text_array,
    write_columns,
)
from kvaudit.formats.schema import INT64, SEQUENCES_NULLABLE, FileKind
from kvaudit.formats.sequence_values import check_lengths, check_tokens


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
        ValuesInvalid: the parts have not one entry a sequence, or a value is none that a reader
            accepts.
        SchemaMismatch: a metadata value is none that a reader accepts.
    """
    columns = _columns(sequences)
    for name, array in columns.items():
        if len(array) != sequences.num_sequences:
            raise ValuesInvalid(
                f"{len(array)} entries for {sequences.num_sequences} sequences", column=name
            )
    check_tokens(sequences.token_offsets, sequences.tokens, path=os.fspath(path))
    for name, values in _lengths(sequences).items():
        check_lengths(name, values, path=os.fspath(path))
    write_columns(
        path,
        kind=FileKind.SEQUENCES,
        key=sequences.key,
        metadata=metadata or {},
        columns=columns,
        nullable=SEQUENCES_NULLABLE,
    )


def _lengths(sequences: Sequences) -> dict[str, NDArray[np.int64]]:
    return {
        "kv_len": sequences.kv_lens,
        "start_position": sequences.start_positions,
        "prompt_len": sequences.prompt_lens,
    }


def _columns(sequences: Sequences) -> dict[str, Any]:
    columns = {
        "request_id": text_array("request_id", sequences.request_ids),
        "tokens": list_array(sequences.token_offsets, integers("tokens", sequences.tokens)),
        "slots": list_array(sequences.slot_offsets, integers("slots", sequences.slots)),
    }
    for name, values in _lengths(sequences).items():
        columns[name] = fixed_width_array(integers(name, values), INT64)
    if any(state is not None for state in sequences.states):
        columns["state"] = text_array("state", sequences.states)
    if any(key is not None for key in sequences.extra_keys):
        columns["extra_key"] = text_array("extra_key", sequences.extra_keys)
    return columns
