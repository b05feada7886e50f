"""What a violation's lines say, and which mechanisms leave the very same lines (CASES.md 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvaudit.constants import FailReason
from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.core.log_report import LoggedSlot

_CHAIN: Final = FailReason.VERIFY_CHAIN_HASH_MISMATCH
_POSITION: Final = FailReason.VERIFY_POSITION_MISMATCH
_BYTES: Final = FailReason.VERIFY_REAL_KV_HASH_MISMATCH
_TOKEN: Final = FailReason.VERIFY_TOKEN_MISMATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Lines that several mechanisms leave.

    Fields:
        says: what they say.
        candidates: rules whose faults leave them, most likely first.
        open: what they cannot tell.
        settled_by: what a dump adds that tells it.
    """

    says: str
    candidates: Sequence[str]
    open: str
    settled_by: str


_INPUTS: Final = Footprint(
    says="the forward was given another token or position than the engine's own table has: the "
    "write launch's inputs differ, no stored KV does",
    candidates=("KV204", "KV207", "KV201"),
    open="whether the inputs or the table were right",
    settled_by="the tokens and slots of the running requests, dumped at that step",
)
_ZERO: Final = Footprint(
    says="the record is all zero: it never arrived, was never stamped, or was cleared",
    candidates=("KV311", "KV302", "KV209"),
    open="whether the KV bytes are zero too, and from which page on",
    settled_by="the KV bytes or their digests, and the sender's snapshot where there was a transfer",
)
_BYTES_ALONE: Final = Footprint(
    says="the bytes are not those that were stamped, and the record stands",
    candidates=(
        "KV203", "KV302", "KV303", "KV304", "KV310", "KV309", "KV305", "KV208", "KV301",
    ),
    open="everything else: neither hash nor a byte is printed, nor the layer; all these leave the same "
    "line",
    settled_by="the KV bytes with their stamps: zero runs, torn borders, flipped bits, equal slots and "
    "other layouts are told apart by them",
)  # fmt: skip
_SHIFTED: Final = Footprint(
    says="the position differs and the chain holds: it was wrong when it was stamped, or whole pages "
    "changed places",
    candidates=("KV204", "KV205", "KV206"),
    open="by how much: the line prints the stored position alone",
    settled_by="the tokens and slots of the requests: a constant delta, whole pages, or an order",
)
_OTHER_RECORD: Final = Footprint(
    says="another record stands here, of another position: its chain and its position differ",
    candidates=("KV101", "KV205", "KV206", "KV203"),
    open="whose record it is, and the expected position, which is not printed",
    settled_by="the slots of all live requests (one slot twice is an alias) and the allocator's owners",
)
_OVERWRITTEN: Final = Footprint(
    says="the record differs, and the one behind it was chained to what stood here before",
    candidates=("KV203", "KV101", "KV208"),
    open="who wrote it: another live request (alias) or one that was gone (late writer)",
    settled_by="the slots of all live requests and the allocator's owners",
)
UNLINKED: Final = Footprint(
    says="the chain breaks between this slot and the one before it, and nothing else differs",
    candidates=("KV202", "KV103", "KV208", "KV203"),
    open="which of the two is wrong: a foreign suffix begins here, the record before it changed, the "
    "plan names a wrong predecessor, or this is the last token and was written over",
    settled_by="the tokens of the request, and the plan's predecessors",
)
_FOREIGN_TOKEN: Final = Footprint(
    says="the token differs and the chain holds: it was stamped so, or the whole chain is foreign",
    candidates=("KV201", "KV202", "KV207"),
    open="whether one token, an offset of all tokens or another request's chain is behind it",
    settled_by="the tokens of all requests",
)
_NO_REASON: Final = Footprint(
    says="the line names no reason that is known",
    candidates=(),
    open="what differed",
    settled_by="a dump of the slot",
)


def footprint_of(root: LoggedSlot, *, has_consequence: bool) -> Footprint:
    """The footprint of a root's lines.

    Args:
        root: the root.
        has_consequence: whether the record behind it fails because of it.
    """
    if root.is_write:
        return _INPUTS
    if root.reasons & RECORD_REASONS:
        return _of_record(root, has_consequence=has_consequence)
    return _BYTES_ALONE if root.reasons & _BYTES else _NO_REASON


def _of_record(root: LoggedSlot, *, has_consequence: bool) -> Footprint:
    reasons = root.reasons
    if (root.token, root.position, root.chain_hash) == (0, 0, 0):
        return _ZERO
    if reasons & _POSITION:
        return _OTHER_RECORD if reasons & _CHAIN else _SHIFTED
    if has_consequence or (reasons & _CHAIN and reasons & _TOKEN):
        return _OVERWRITTEN
    return UNLINKED if reasons & _CHAIN else _FOREIGN_TOKEN
