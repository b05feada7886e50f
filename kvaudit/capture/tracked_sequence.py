"""A sequence as a recorder follows it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.tables import SequenceRow
from kvaudit.constants import UNKNOWN_LENGTH
from kvaudit.core.sequences import SequenceState


@dataclass(slots=True, kw_only=True, eq=False)
class TrackedSequence:
    """A sequence as it was last seen: slots[i] holds position first_position + i.

    Fields:
        request_id: its name.
        tokens: token ids from position 0, shape [n], int64; -1 = unknown.
        slots: its table, shape [m], int64.
        first_position: position of the first slot.
        prompt_len: prompt tokens; -1 = unknown.
        state: RUNNING, FINISHED, or CACHED once some of its slots were given away.
    """

    request_id: str
    tokens: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    slots: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    first_position: int = 0
    prompt_len: int = UNKNOWN_LENGTH
    state: SequenceState = SequenceState.RUNNING

    @property
    def kv_len(self) -> int:
        """Positions whose KV is written."""
        return self.first_position + len(self.slots)

    def row(self) -> SequenceRow:
        """The sequence as a dump has it."""
        return SequenceRow(
            request_id=self.request_id,
            tokens=self.tokens,
            slots=self.slots,
            kv_len=self.kv_len,
            start_position=self.first_position,
            prompt_len=self.prompt_len,
            state=self.state,
        )

    def run(self, row: PoolRow) -> None:
        """A forward has written a part of it."""
        self.slots, self.first_position = row.slots, row.first_position
        self.tokens = row.tokens_after(self.tokens)
        self.prompt_len = row.prompt_len

    def keep_before(self, lost: NDArray[np.bool_]) -> None:
        """Only the positions before the first lost one are still cached.

        Args:
            lost: which of its slots were given away, shape [m], bool.
        """
        self.slots = self.slots[: int(np.argmax(lost))]
        self.state = SequenceState.CACHED
