"""One failed entry, or one slot whose column digests differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvaudit.constants import MASK64, NUM_LAUNCH_TAGS, FailReason, LaunchTag
from kvaudit.core.fail_reason import reason_labels
from kvaudit.core.snapshot import PoolKey


def hash_label(value: int | None) -> str | None:
    """A 64-bit hash as `0x` and 16 lower-case digits; None stays None."""
    return None if value is None else f"0x{value & MASK64:016x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A failed entry. A column difference is a row of its own: tag and entry are None.

    Hashes are unsigned 64-bit; None where the row has no such value.

    Fields:
        tag: the launch; None for a column difference.
        key: the pool.
        entry: index of the entry in its plan; None for a column difference.
        slot: the slot, in the engine's numbering.
        position: stored position; None where no record was read.
        expected_position: the plan's position.
        token: stored token; None where no record was read.
        expected_token: the plan's token; -1 = unchecked.
        chain_hash: stored prev_hash.
        expected_chain_hash: slot hash of the predecessor (the stored one when not checked).
        real_kv_hash: stored combined hash.
        expected_real_kv_hash: recomputed or dumped combined hash; None when not judged.
        columns: KV columns whose digest differs from the stamped one, in layer order.
        reasons: what differed.
        request_ids: the requests that read the slot at this entry; of a column row, all that read it.
        step: the step of the plan or of the snapshot.
    """

    tag: LaunchTag | None
    key: PoolKey
    entry: int | None
    slot: int
    position: int | None = None
    expected_position: int | None = None
    token: int | None = None
    expected_token: int | None = None
    chain_hash: int | None = None
    expected_chain_hash: int | None = None
    real_kv_hash: int | None = None
    expected_real_kv_hash: int | None = None
    columns: tuple[str, ...] = ()
    reasons: FailReason
    request_ids: tuple[str, ...] = ()
    step: int | None = None

    def sort_key(self) -> tuple[int, int, int, int]:
        """Rows sort by tag number (None last), slot, position, entry."""
        return (
            NUM_LAUNCH_TAGS if self.tag is None else int(self.tag),
            self.slot,
            -1 if self.position is None else self.position,
            -1 if self.entry is None else self.entry,
        )

    def to_dict(self) -> dict[str, Any]:
        """The row of the JSON report (DESIGN.md 5)."""
        return {
            "tag": None if self.tag is None else self.tag.name,
            **self.key.place(),
            "entry": self.entry,
            "slot": self.slot,
            "position": self.position,
            "expected_position": self.expected_position,
            "token": self.token,
            "expected_token": self.expected_token,
            "chain_hash": hash_label(self.chain_hash),
            "expected_chain_hash": hash_label(self.expected_chain_hash),
            "real_kv_hash": hash_label(self.real_kv_hash),
            "expected_real_kv_hash": hash_label(self.expected_real_kv_hash),
            "columns": list(self.columns),
            "reasons": list(reason_labels(self.reasons)),
            "request_ids": list(self.request_ids),
            "step": self.step,
        }
