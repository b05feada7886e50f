"""What an engine's log says of its canary: only what is printed, with None for what is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvaudit.constants import FailReason

WRITE_REASONS: Final = FailReason.WRITE_TOKEN_MISMATCH | FailReason.WRITE_POSITION_MISMATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedViolation:
    """One printed violation.

    Hashes are unsigned 64-bit. None where the text has no such value: it was cut, or pasted without
    its first line.

    Fields:
        tag: name of the launch tag, `unknown(77)` of one that has none.
        slot: in the numbering of the tag's pool.
        position: verify: stored; write: the position being written.
        reasons: what differed.
        token: verify: stored; write: the token being written.
        expected_token: None where it was not checked, too.
        expected_position: write, and the oldest texts of a verify; None otherwise.
        chain_hash: verify: stored prev_hash; write: running hash before the slot.
        expected_hash: verify: expected prev_hash; None of a write.
        rank: such as `DP0 TP1`; "" where the prefix names none.
        step: at which the host read the ring: later than the faulty step.
        total: violations of all tags when it was printed.
        ring_overflow: whether the ring had no room for some of them.
    """

    tag: str
    slot: int
    position: int
    reasons: FailReason
    token: int | None = None
    expected_token: int | None = None
    expected_position: int | None = None
    chain_hash: int | None = None
    expected_hash: int | None = None
    rank: str = ""
    step: int | None = None
    total: int | None = None
    ring_overflow: bool | None = None

    @property
    def is_write(self) -> bool:
        """Whether a write launch found it."""
        return bool(self.reasons & WRITE_REASONS)

    @property
    def pool_kind(self) -> str:
        """`FULL` or `SWA`; "" of an unknown tag."""
        kind = self.tag.rpartition("_")[2]
        return kind if kind in {"FULL", "SWA"} else ""


class LogLineKind(StrEnum):
    """A line of the canary that is no violation."""

    STATISTICS = "statistics"
    SWEEPS = "sweeps"
    NOT_VERIFIED = "not_verified"
    STALLED = "stalled"
    REFUSED = "refused"
    INSTALLED = "installed"
    ATTACHED = "attached"
    SWA_DIVERGENCE = "swa_divergence"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of the canary that is no violation.

    Fields:
        kind: which line.
        facts: what it says, by name.
        rank: such as `DP0 TP1`; "" where the prefix names none.
    """

    kind: LogLineKind
    facts: Mapping[str, int | str]
    rank: str = ""


LogEvent = LoggedViolation | LogLine
