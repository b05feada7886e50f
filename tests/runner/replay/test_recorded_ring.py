from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.runner.replay.recorded_ring import recorded_rows
from tests.runner.replay.recorded_plans import replay_until

BYTES = [int(LaunchTag.TAIL_K_FULL), 9, 5, 77, -1, -2, -2, 4]
STRANGE = [99, 9, 5, 77, -1, 1, 1, 1]


def state(*rows: Sequence[int], total: int | None = None) -> CanaryState:
    return CanaryState(
        ring=np.array(rows, dtype=np.int64).reshape(-1, 8),
        violation_write_index=len(rows) if total is None else total,
        ring_capacity=len(rows),
        kernel_run_counters={},
        slot_run_counters={},
        active_tags=(),
        sweep_passes={},
    )


def test_what_the_engine_found_and_the_replay_cannot_is_reported(short_run: Path) -> None:
    ring = replay_until(short_run, 5)._ring
    found = recorded_rows(state(BYTES, STRANGE), ring, shift=4)
    assert found.total == 2
    first, strange = found.rows
    assert (first.tag, first.slot, first.position) == (LaunchTag.TAIL_K_FULL, 5, 5)
    assert first.reasons == FailReason.VERIFY_REAL_KV_HASH_MISMATCH
    assert first.chain_hash == (1 << 64) - 2
    assert (first.step, first.key) == (None, ring.key)
    assert strange.tag is None


def test_what_both_found_is_told_of_once_and_lost_rows_are_counted(short_run: Path) -> None:
    ring = replay_until(short_run, 5)._ring
    ring.fields, ring.total = [tuple(BYTES)], 1
    assert recorded_rows(state(BYTES), ring, shift=0).total == 0
    overflown = recorded_rows(state(BYTES, STRANGE, total=50), ring, shift=0)
    assert [row.tag for row in overflown.rows] == [None]
    assert overflown.total == 49


def test_a_run_without_a_state_has_none(short_run: Path) -> None:
    found = recorded_rows(None, replay_until(short_run, 5)._ring, shift=0)
    assert (found.rows, found.total) == ((), 0)
