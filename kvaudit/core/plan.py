"""What a launch checks: flat entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ValuesInvalid


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VerifyPlan:
    """Flat entries of one verify launch.

    Entries past num_valid are unspecified and never read.

    Fields:
        verify_slot_indices: slot of each entry, shape [capacity], int64; PADDING_SLOT is skipped.
        verify_expected_tokens: shape [capacity], int64; NO_EXPECTED_TOKEN = unchecked.
        verify_expected_positions: position in the sequence, shape [capacity], int64, in tokens.
        verify_prev_slot_indices: predecessor in the chain, shape [capacity], int64;
            NO_PREDECESSOR at a head, PREDECESSOR_UNREACHABLE skips the chain check.
        num_valid: active entries as dumped; the launch clamps it to [0, capacity].
        enable: whether the launch ran its checks.
    """

    verify_slot_indices: NDArray[np.int64]
    verify_expected_tokens: NDArray[np.int64]
    verify_expected_positions: NDArray[np.int64]
    verify_prev_slot_indices: NDArray[np.int64]
    num_valid: int
    enable: bool = True

    def __post_init__(self) -> None:
        lengths = {
            len(self.verify_slot_indices),
            len(self.verify_expected_tokens),
            len(self.verify_expected_positions),
            len(self.verify_prev_slot_indices),
        }
        if len(lengths) != 1:
            raise ValuesInvalid(f"the verify lists have different lengths: {sorted(lengths)}")

    @property
    def capacity(self) -> int:
        """Allocated entries."""
        return len(self.verify_slot_indices)

    def __len__(self) -> int:
        return min(max(self.num_valid, 0), self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedLaunch:
    """One plan of one step, with the launches that used it.

    Fields:
        step: the step it was made for; None when made from sequences.
        tags: the launches that used it, ascending; None = every tag that the canary columns allow.
        plan: its entries.
        check_verify_expected_token: whether tokens are judged.
        request_ids: request of each active entry, or None where the plan does not say.
    """

    step: int | None
    tags: tuple[LaunchTag, ...] | None
    plan: VerifyPlan
    check_verify_expected_token: bool
    request_ids: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanDump:
    """The plan rows of one file.

    Fields:
        path: the file as the user wrote it; "" in memory.
        key: the pairing key.
        launches: the rows, in file order.
    """

    path: str = ""
    key: PoolKey = PoolKey()
    launches: Sequence[PlannedLaunch]
