"""What a launch checks, and what it writes: flat entries."""

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
class WritePlan:
    """What one write launch stamps, request by request.

    Request r has the entries [write_offsets[r], write_offsets[r + 1]); a decreasing pair is empty.

    Fields:
        write_offsets: first entry of each request, shape [capacity + 1], int64.
        write_seed_slot_indices: slot that each chain goes on from, shape [capacity], int64;
            negative = a head.
        num_valid_reqs: requests as dumped; the launch clamps it to [0, capacity].
    """

    write_offsets: NDArray[np.int64]
    write_seed_slot_indices: NDArray[np.int64]
    num_valid_reqs: int

    def __post_init__(self) -> None:
        if len(self.write_offsets) != self.capacity + 1:
            raise ValuesInvalid(
                f"{len(self.write_offsets)} write_offsets for {self.capacity} seeds",
                hint="give one offset more than seeds",
            )

    @property
    def capacity(self) -> int:
        """Allocated requests."""
        return len(self.write_seed_slot_indices)

    def __len__(self) -> int:
        return min(max(self.num_valid_reqs, 0), self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedWrite:
    """The write half of a step: a plan, and the tokens that it stamps.

    Fields:
        plan: requests, entries and seeds.
        input_ids: token of each entry, shape [num_tokens], int64.
        positions: position of each entry, shape [num_tokens], int64, in tokens.
        out_cache_loc: slot of each entry, shape [num_tokens], int64; SKIP_WRITE = not stored.
        expected_input_tokens: shape [num_tokens], int64; None without the input assert.
        expected_input_positions: shape [num_tokens], int64; None without the input assert.
        enable_chain_position_assert: whether positions are held against the seed's.
        request_ids: request of each of the plan's valid requests; None where it does not say.
    """

    plan: WritePlan
    input_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    out_cache_loc: NDArray[np.int64]
    expected_input_tokens: NDArray[np.int64] | None = None
    expected_input_positions: NDArray[np.int64] | None = None
    enable_chain_position_assert: bool = False
    request_ids: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if (self.expected_input_tokens is None) != (self.expected_input_positions is None):
            raise ValuesInvalid(
                "one of expected_input_tokens and expected_input_positions is not given",
                hint="give both, or neither",
            )
        arrays = (
            self.input_ids,
            self.positions,
            self.out_cache_loc,
            self.expected_input_tokens,
            self.expected_input_positions,
        )
        lengths = {len(array) for array in arrays if array is not None}
        if len(lengths) != 1:
            raise ValuesInvalid(f"the write lists have different lengths: {sorted(lengths)}")

    @property
    def enable_write_input_assert(self) -> bool:
        """Whether tokens and positions are held against the expected pair."""
        return self.expected_input_tokens is not None

    def entries_of(self, request_idx: int) -> slice:
        """The entries of a request, clamped to the token arrays as the launch clamps them."""
        num_tokens = len(self.input_ids)
        first, last = self.plan.write_offsets[request_idx : request_idx + 2].tolist()
        start = min(max(first, 0), num_tokens)
        return slice(start, max(start, min(last, num_tokens)))


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
        launches: the rows that say what was checked, in file order.
        num_derived: the other rows, of a trace: whoever replays it derives what they checked.
    """

    path: str = ""
    key: PoolKey = PoolKey()
    launches: Sequence[PlannedLaunch]
    num_derived: int = 0
