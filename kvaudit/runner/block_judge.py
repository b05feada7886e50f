"""One block of entries against the records of one launch: counts and failed entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    NO_EXPECTED_TOKEN,
    PADDING_SLOT,
    PREDECESSOR_UNREACHABLE,
    FailReason,
)
from kvaudit.core.backend import Backend
from kvaudit.core.entries import EntryBlock, to_engine_slots
from kvaudit.runner.canary_launch import CanaryLaunch
from kvaudit.runner.failed_entries import FAILED_ENTRY
from kvaudit.runner.row_space import RowSpace

_REAL_KV_HASH_DIFFERS = np.uint32(FailReason.VERIFY_REAL_KV_HASH_MISMATCH)
_NONE_FAILED = np.empty(0, dtype=FAILED_ENTRY)


@dataclass(slots=True, kw_only=True, eq=False)
class JudgedBlock:
    """What one block's entries are; `RecordsResult` counts the same.

    Fields:
        num_entries: entries of the block, padding included.
        checked: entries judged.
        skipped_padding: entries of slot 0.
        predecessor_unreachable: judged entries without a chain check.
        not_in_snapshot: entries whose slot the file lacks.
        unstamped: entries of slots never stamped.
        real_kv_differences: entries that only a mid-step dump excuses.
        failed: failed entries, shape [n], FAILED_ENTRY, in entry order.
    """

    num_entries: int
    checked: int = 0
    skipped_padding: int = 0
    predecessor_unreachable: int = 0
    not_in_snapshot: int = 0
    unstamped: int = 0
    real_kv_differences: int = 0
    failed: NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockJudge:
    """Judges blocks of one launch; holds nothing of them, so that several may be judged at once.

    Fields:
        launch: the records and what their real_kv_hash must be.
        space: the pool's row space.
        backend: what verifies.
    """

    launch: CanaryLaunch
    space: RowSpace
    backend: Backend

    def judge(self, block: EntryBlock, *, source_idx: int, check_tokens: bool) -> JudgedBlock:
        """Judge one block.

        Args:
            block: the entries.
            source_idx: number of their source, for the failed entries.
            check_tokens: whether tokens are judged.
        """
        judged = JudgedBlock(num_entries=len(block), failed=_NONE_FAILED)
        indices, prev_indices = self._indices(block, judged)
        launch, real = self.launch, None
        if launch.real_kv_hashes is not None:
            real = launch.real_kv_hashes.take(indices, mode="clip")
        reasons = self.backend.verify(
            records=launch.records,
            slot_indices=indices,
            expected_tokens=block.expected_tokens,
            expected_positions=block.expected_positions,
            prev_slot_indices=prev_indices,
            real_kv_hashes=real,
            tag=launch.tag,
            check_expected_token=check_tokens,
        )
        if not launch.real_kv_hash_judged:
            if real is not None:
                differ = reasons & _REAL_KV_HASH_DIFFERS
                judged.real_kv_differences = int(np.count_nonzero(differ))
            reasons = reasons & ~_REAL_KV_HASH_DIFFERS
        if reasons.any():
            at = np.flatnonzero(reasons)
            rows = np.zeros(len(at), dtype=FAILED_ENTRY)
            rows["source"], rows["entry"] = source_idx, block.entry_indices[at]
            rows["slot"] = to_engine_slots(block.slot_indices[at], self.space.slot_shift)
            rows["index"], rows["prev_index"] = indices[at], prev_indices[at]
            rows["position"] = self.space.stored_positions(launch.records, indices[at])
            rows["expected_token"] = (
                block.expected_tokens[at] if check_tokens else NO_EXPECTED_TOKEN
            )
            rows["expected_position"] = block.expected_positions[at]
            rows["expected_real_kv_hash"] = 0 if real is None else real[at]
            rows["reasons"] = reasons[at]
            judged.failed = rows
        return judged

    def _indices(
        self, block: EntryBlock, judged: JudgedBlock
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The block's slots and predecessors as indices; 0 where an entry is not judged."""
        indices = self.space.indices_of(block.slot_indices)
        prev_indices = self.space.indices_of(block.prev_slot_indices)
        num_present = int(np.count_nonzero(indices))
        if num_present < len(block):
            judged.skipped_padding = int(np.count_nonzero(block.slot_indices == PADDING_SLOT))
            judged.not_in_snapshot = len(block) - num_present - judged.skipped_padding
        if self.space.never_stamped_indices is not None:
            never = self.space.never_stamped_indices[indices]
            judged.unstamped = int(np.count_nonzero(never))
            indices = np.where(never, PADDING_SLOT, indices)
        judged.checked = num_present - judged.unstamped
        if np.count_nonzero(prev_indices) < len(block):
            unreachable = (prev_indices == PREDECESSOR_UNREACHABLE) & (indices != PADDING_SLOT)
            judged.predecessor_unreachable = int(np.count_nonzero(unreachable))
        return indices, prev_indices
