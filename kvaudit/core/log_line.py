"""The frozen text of a violation: seven lines that log parsers of today's engines read.

The names in it, `kernel_kind`, `slot_idx` and `expected_aux`, are the outside world's. The first
line is key=value; in mode `log` each violation is one record, so only that line has the prefix of
the logger.
"""

from __future__ import annotations

from typing import Final

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.fail_reason import reason_labels
from kvaudit.core.launch_tag import LaunchPhase, phase_of
from kvaudit.core.ring_row import RingRow
from kvaudit.core.violation import hash_label

_WRITE_REASONS: Final = FailReason.WRITE_TOKEN_MISMATCH | FailReason.WRITE_POSITION_MISMATCH
_NO_REASON: Final = ("none",)


def violation_text(row: RingRow, *, total: int, ring_overflow: bool, step: int) -> str:
    """A violation as seven lines.

    Args:
        row: the row of the ring.
        total: violations of all tags so far, also those the ring had no room for.
        ring_overflow: whether there are such.
        step: the step at which the host read the ring; later than the faulty one.
    """
    tag = tag_label(row.tag)
    labels = reason_labels(row.reasons) or _NO_REASON
    return (
        f"kv_canary violation: launch_tag={tag} fail_reason={'+'.join(labels)} "
        f"slot_idx={row.slot} position={row.position} stored_token={row.token} "
        f"expected_token={row.expected_token} stored_chain_hash={hash_label(row.chain_hash)} "
        f"expected_aux={hash_label(row.expected_aux)}\n"
        f"KV cache canary violation detected (kernel_kind={tag}, slot_idx={row.slot}, "
        f"position={row.position})\n"
        f"canary_kind:       {_canary_kind(row.tag)}\n"
        f"  fail_reasons: {' '.join(labels)}\n"
        f"{_compared(row)}\n"
        f"  total_violations={total} ring_overflow={ring_overflow} step_when_pumped={step}"
    )


def tag_label(tag: int) -> str:
    """The name of a tag's number, `unknown(12)` for one that has none."""
    return LaunchTag(tag).name if _is_known(tag) else f"unknown({tag})"


def _canary_kind(tag: int) -> str:
    if not _is_known(tag):
        return tag_label(tag)
    is_sweep = phase_of(LaunchTag(tag)) is LaunchPhase.SWEEP
    return ("" if is_sweep else "per_forward_") + tag_label(tag).lower()


def _is_known(tag: int) -> bool:
    return tag in LaunchTag.__members__.values()


def _compared(row: RingRow) -> str:
    """What a verify launch found against what it expected, or what a write launch was given."""
    if row.reasons & _WRITE_REASONS:
        return (
            f"  actual:   token_id={row.token}   position={row.position}\n"
            f"  expected: token_id={row.expected_token}   position={row.expected_aux}"
        )
    judges_token = bool(row.reasons & FailReason.VERIFY_TOKEN_MISMATCH)
    expected = f"token_id={row.expected_token} " if judges_token else ""
    return (
        f"  stored:   token_id={row.token}   position={row.position} "
        f"prev_hash={hash_label(row.chain_hash)}\n"
        f"  expected: {expected}prev_hash={hash_label(row.expected_aux)}"
    )
