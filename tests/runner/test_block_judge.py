"""One block: what it counts, and what fails."""

from __future__ import annotations

import numpy as np

from kvaudit.backends.cpu import CpuBackend
from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.entries import EntryBlock
from kvaudit.runner.block_judge import BlockJudge, JudgedBlock
from kvaudit.runner.canary_launch import CanaryLaunch
from kvaudit.runner.row_space import RowSpace
from tests.helpers.worlds import fixture_f


def judged(slots: list[int], prev_slots: list[int], positions: list[int]) -> JudgedBlock:
    """Entries of a pool that holds request A alone, without a look at tokens."""
    snapshot = fixture_f().snapshot()
    space = RowSpace(snapshot)
    launch = CanaryLaunch(
        tag=LaunchTag.TAIL_K_FULL,
        records=space.records(snapshot.canary["k.tail"]),
        real_kv_hashes=None,
        real_kv_hash_judged=False,
    )
    block = EntryBlock(
        entry_indices=np.arange(100, 100 + len(slots)),
        slot_indices=np.array(slots),
        prev_slot_indices=np.array(prev_slots),
        expected_tokens=np.zeros(len(slots), dtype=np.int64),
        expected_positions=np.array(positions),
    )
    judge = BlockJudge(launch=launch, space=space, backend=CpuBackend())
    return judge.judge(block, source_idx=3, check_tokens=False)


def test_right_entries_padding_and_unreachable_predecessors_are_counted() -> None:
    block = judged([2, 3, 0, 5], [-1, 2, -1, 0], [0, 1, 9, 3])
    assert block.failed.size == 0
    assert (block.num_entries, block.checked, block.skipped_padding) == (4, 3, 1)
    assert (block.predecessor_unreachable, block.not_in_snapshot, block.unstamped) == (1, 0, 0)


def test_a_failed_entry_keeps_its_number_its_source_and_its_reason() -> None:
    (row,) = judged([2, 3], [-1, 2], [0, 7]).failed
    assert (row["source"], row["entry"], row["slot"], row["position"]) == (3, 101, 3, 1)
    assert row["expected_position"] == 7
    assert row["reasons"] == FailReason.VERIFY_POSITION_MISMATCH
