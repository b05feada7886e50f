"""Running requests and cached prefixes with their tokens and slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.snapshot import PoolKey


class SequenceState(StrEnum):
    """What a sequence is to its engine; in-flight ones are counted, not judged."""

    RUNNING = "running"
    WAITING = "waiting"
    CACHED = "cached"
    IN_FLIGHT = "in_flight"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sequences:
    """The friendly expectation: which slots should hold which tokens.

    Sequence i owns tokens[token_offsets[i]:token_offsets[i + 1]] (prompt and output, from position
    start_positions[i]) and slots[slot_offsets[i]:slot_offsets[i + 1]]; its j-th slot holds position
    start_positions[i] + j. tokens of sequence i start at position 0, whatever start_positions says.

    Fields:
        path: the file as the user wrote it; "" in memory.
        key: the pairing key.
        request_ids: name of each sequence, num_sequences of them.
        token_offsets: shape [num_sequences + 1], int64, ascending from 0.
        tokens: token ids of all sequences, shape [num_tokens], int64; -1 = unknown.
        slot_offsets: shape [num_sequences + 1], int64, ascending from 0.
        slots: slots of all sequences, shape [num_slots], int64.
        kv_lens: positions whose KV is written, shape [num_sequences], int64; defaults are resolved.
        start_positions: position of the first slot, shape [num_sequences], int64.
        prompt_lens: prompt tokens, shape [num_sequences], int64; -1 = unknown.
        states: state of each sequence; None = not given.
        extra_keys: LoRA, cache salt or media key of each sequence; None = not given.
    """

    path: str = ""
    key: PoolKey = PoolKey()
    request_ids: Sequence[str]
    token_offsets: NDArray[np.int64]
    tokens: NDArray[np.int64]
    slot_offsets: NDArray[np.int64]
    slots: NDArray[np.int64]
    kv_lens: NDArray[np.int64]
    start_positions: NDArray[np.int64]
    prompt_lens: NDArray[np.int64]
    states: Sequence[SequenceState | None]
    extra_keys: Sequence[str | None]

    @property
    def num_sequences(self) -> int:
        """How many sequences there are."""
        return len(self.request_ids)

    def tokens_of(self, sequence_idx: int) -> NDArray[np.int64]:
        """Token ids of one sequence, shape [its length], int64."""
        return self.tokens[self.token_offsets[sequence_idx] : self.token_offsets[sequence_idx + 1]]

    def slots_of(self, sequence_idx: int) -> NDArray[np.int64]:
        """Slots of one sequence, shape [its slots], int64."""
        return self.slots[self.slot_offsets[sequence_idx] : self.slot_offsets[sequence_idx + 1]]
