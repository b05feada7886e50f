"""The violations of a replay's own launches, each with the step that found it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.ring_row import RingRow
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation
from kvaudit.runner.replay.replayed_pool import MAX_HOLDERS, ReplayedPool
from kvaudit.runner.replay.step_plans import StepPlans

_WRITE_REASONS = FailReason.WRITE_TOKEN_MISMATCH | FailReason.WRITE_POSITION_MISMATCH
_MASK32 = (1 << 32) - 1


class RingReader:
    """Reads the ring where a step has moved its index. Rows past its capacity are counted alone.

    Args:
        pool: the replay's side.
        key: the pool, as rows name it.

    Fields:
        key: the pool.
        rows: the rows so far, in ring order.
        fields: the eight numbers of each row of the ring.
        total: violations so far.
        by_tag: those with a row, by tag.
    """

    def __init__(self, pool: ReplayedPool, *, key: PoolKey) -> None:
        self._pool = pool
        self.key = key
        self.rows: list[Violation] = []
        self.fields: list[tuple[int, ...]] = []
        self.total = 0
        self.by_tag: Counter[LaunchTag] = Counter()

    def step(self, plans: StepPlans | None, *, step: int) -> Sequence[Violation]:
        """The new rows of a step, before its writes are in the tables.

        Args:
            plans: what it launched; None where nothing but sweeps ran.
            step: the step.
        """
        state = self._pool.canary.state
        total = int(state.violation_write_index) & _MASK32
        if total == self.total:
            return ()
        ring = state.violation_ring[min(self.total, state.ring_capacity) : total].cpu().tolist()
        self.total = total
        new = [self._violation(RingRow.of(fields), plans, step=step) for fields in ring]
        self.fields += map(tuple, ring)
        self.rows += new
        return new

    def _violation(self, row: RingRow, plans: StepPlans | None, *, step: int) -> Violation:
        tag = LaunchTag(row.tag)
        self.by_tag[tag] += 1
        holders = list(self._pool.tables.holders_of(row.slot))[:MAX_HOLDERS]
        is_write = bool(row.reasons & _WRITE_REASONS)
        expected = row.expected_aux if is_write else self._expected_position(row, plans)
        return Violation(
            tag=tag,
            key=self.key,
            entry=None,
            slot=row.slot - self._pool.canary.shift,
            position=row.position,
            expected_position=expected,
            token=row.token,
            expected_token=row.expected_token,
            chain_hash=row.chain_hash,
            expected_chain_hash=row.chain_hash if is_write else row.expected_aux,
            reasons=row.reasons,
            request_ids=tuple(dict.fromkeys(name for name, _ in holders if name)),
            step=step,
        )

    def _expected_position(self, row: RingRow, plans: StepPlans | None) -> int | None:
        """What the plan says of the slot; None where the plan does not have it."""
        if plans is None or plans.verify_plan is None:
            return None
        plan = plans.verify_plan
        slots = plan.verify_slot_indices[: plans.num_entries].cpu().numpy()
        found = np.flatnonzero(slots == row.slot)
        return int(plan.verify_expected_positions[int(found[0])]) if found.size else None
