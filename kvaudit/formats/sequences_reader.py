"""A sequences file as `Sequences`: offsets, defaults and ranges checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import UNKNOWN_LENGTH
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.formats.arrow_file import ArrowFile
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.rows import RowReader
from kvaudit.formats.schema import SEQUENCES_NULLABLE, SEQUENCES_OPTIONAL, SEQUENCES_REQUIRED
from kvaudit.formats.sequence_values import check_lengths, check_tokens


def read_sequences(file: ArrowFile) -> tuple[Sequences, dict[str, str | int], list[str]]:
    """The sequences, the given parts of their pairing key, and notes for the report.

    Slots outside the pool and lengths past the slots are for the audit to report, not refused.

    Raises:
        SchemaMismatch: a column or key is missing, malformed or of another type.
        ValuesInvalid: a null, a token below -1, a negative length or an unknown state.
        LimitExceeded: too many rows or too much text.
        FileCorrupt: a digest differs.
    """
    rows = RowReader(file, SEQUENCES_REQUIRED, SEQUENCES_OPTIONAL, nullable=SEQUENCES_NULLABLE)
    key, given = MetadataValues(file.metadata, file.path).pool_key()
    tokens = rows.integer_lists("tokens")
    slots = rows.integer_lists("slots")
    check_tokens(tokens.offsets, tokens.values, path=file.path)
    zeros = np.zeros(rows.num_rows, dtype=np.int64)
    start_positions = _lengths(rows, "start_position", zeros)
    written = np.minimum(np.diff(tokens.offsets), start_positions + np.diff(slots.offsets))
    sequences = Sequences(
        path=file.path,
        key=key,
        request_ids=rows.texts("request_id"),
        token_offsets=tokens.offsets,
        tokens=tokens.values,
        slot_offsets=slots.offsets,
        slots=slots.values,
        kv_lens=_lengths(rows, "kv_len", written),
        start_positions=start_positions,
        prompt_lens=_lengths(rows, "prompt_len", zeros + UNKNOWN_LENGTH),
        states=[_state(rows, row, word) for row, word in enumerate(rows.optional_texts("state"))],
        extra_keys=rows.optional_texts("extra_key"),
    )
    return sequences, given, rows.notes


def _lengths(rows: RowReader, name: str, default: NDArray[np.int64]) -> NDArray[np.int64]:
    if not rows.has(name):
        return default
    values = rows.integers(name, np.int64)
    check_lengths(name, values, path=rows.path)
    return values


def _state(rows: RowReader, row: int, word: str | None) -> SequenceState | None:
    if word is None:
        return None
    if word not in set(SequenceState):
        raise rows.invalid(
            f"the state {word[:80]!r} is not {', '.join(SequenceState)}", column="state", row=row
        )
    return SequenceState(word)
