"""What the engine's own canary found in the run that is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvaudit.constants import NUM_LAUNCH_TAGS, LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.ring_row import RingRow
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation
from kvaudit.runner.replay.ring_reader import RingReader


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRows:
    """Violations of the engine's ring that the replay does not have: of bytes, for instance.

    Fields:
        rows: those with a row.
        total: all of them.
    """

    rows: Sequence[Violation] = ()
    total: int = 0


def recorded_rows(state: CanaryState | None, ring: RingReader, *, shift: int) -> RecordedRows:
    """Hold the engine's ring against the replay's.

    Args:
        state: the engine's counters at its end; None = there are none.
        ring: the replay's violations.
        shift: what the launches' slots have on top of the run's.
    """
    if state is None:
        return RecordedRows()
    known = set(ring.fields)
    new = [RingRow.of(row) for row in state.ring.tolist() if tuple(row) not in known]
    # Of those without a row, the replay may have found any.
    more = state.violation_write_index - ring.total
    return RecordedRows(
        rows=[_violation(row, ring.key, shift=shift) for row in new], total=max(len(new), more)
    )


def _violation(row: RingRow, key: PoolKey, *, shift: int) -> Violation:
    """A row whose step and plan nobody knows any more."""
    return Violation(
        tag=LaunchTag(row.tag) if 0 <= row.tag < NUM_LAUNCH_TAGS else None,
        key=key,
        entry=None,
        slot=row.slot - shift,
        position=row.position,
        token=row.token,
        expected_token=row.expected_token,
        chain_hash=row.chain_hash,
        expected_chain_hash=row.expected_aux,
        reasons=row.reasons,
    )
