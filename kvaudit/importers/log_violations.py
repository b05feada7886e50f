"""A violation from its block: the key=value line, or what is left of the lines below it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kvaudit.constants import FailReason
from kvaudit.core.engine_log import WRITE_REASONS, LoggedViolation
from kvaudit.core.fail_reason import REASON_LABELS

_NUMBER: Final = r"-?\d{1,19}"
_HASH: Final = r"0x(?P<{}>[0-9a-fA-F]{{16}})"
_TAG: Final = r"(?:HEAD|TAIL|SWEEP)_[KV]_(?:FULL|SWA)|unknown\(-?\d{1,19}\)"

# Older texts leave out `verify_`.
_LABELS: Final = {
    **{label: bit for bit, label in REASON_LABELS.items()},
    "chain_hash": FailReason.VERIFY_CHAIN_HASH_MISMATCH,
    "position": FailReason.VERIFY_POSITION_MISMATCH,
    "real_kv_hash": FailReason.VERIFY_REAL_KV_HASH_MISMATCH,
}
# Without one of them the expected token was not compared, whatever number stands there.
_TOKEN_REASONS: Final = WRITE_REASONS | FailReason.VERIFY_TOKEN_MISMATCH
_LABEL: Final = re.compile("|".join(sorted(_LABELS, key=len, reverse=True)))
_REASONS: Final = rf"(?:(?:{_LABEL.pattern}|none)\+?)*"

_FIRST_LINE: Final = re.compile(
    rf"launch_tag=(?P<tag>{_TAG})fail_reason=(?P<reasons>{_REASONS})slot_idx=(?P<slot>{_NUMBER})"
    rf"position=(?P<position>{_NUMBER})stored_token=(?P<token>{_NUMBER})"
    rf"expected_token=(?P<expected_token>{_NUMBER})"
    rf"stored_chain_hash={_HASH.format('chain_hash')}expected_aux={_HASH.format('expected_aux')}"
)
_SECOND_LINE: Final = re.compile(
    rf"kernel_kind=(?P<tag>{_TAG}),slot_idx=(?P<slot>{_NUMBER}),position=(?P<position>{_NUMBER})\)"
)
_KIND: Final = re.compile(
    r"canary_kind:(?:per_forward_)?(?P<tag>(?:head|tail|sweep)_[kv]_(?:full|swa)|unknown\(-?\d+\))"
)
_REASON_LINE: Final = re.compile(rf"fail_reasons:(?P<reasons>{_REASONS})")
_STORED: Final = re.compile(
    rf"(?:stored|actual):token_id=(?P<token>{_NUMBER})position=(?P<position>{_NUMBER})"
    rf"(?:prev_hash={_HASH.format('chain_hash')})?"
)
_EXPECTED: Final = re.compile(
    rf"expected:(?:token_id=(?P<token>{_NUMBER}))?(?:position=(?P<position>{_NUMBER}))?"
    rf"(?:prev_hash={_HASH.format('chain_hash')})?"
)
_TOTALS: Final = re.compile(
    rf"total_violations=(?P<total>{_NUMBER})ring_overflow=(?P<overflow>True|False)"
    rf"step_when_pumped=(?P<step>{_NUMBER})"
)


def violation_of(squeezed: str, *, rank: str) -> LoggedViolation | None:
    """The violation of a block without white space; None where no slot can be read in it."""
    seen = _of_first_line(squeezed) or _of_body(squeezed)
    if seen is None:
        return None
    totals = _TOTALS.search(squeezed)
    return replace(
        seen,
        rank=rank,
        step=int(totals["step"]) if totals else None,
        total=int(totals["total"]) if totals else None,
        ring_overflow=totals["overflow"] == "True" if totals else None,
    )


def _of_first_line(squeezed: str) -> LoggedViolation | None:
    found = _FIRST_LINE.search(squeezed)
    if found is None:
        return None
    reasons = _reasons(found["reasons"])
    is_write = bool(reasons & WRITE_REASONS)
    aux = int(found["expected_aux"], 16)
    return LoggedViolation(
        tag=found["tag"],
        slot=int(found["slot"]),
        position=int(found["position"]),
        reasons=reasons,
        token=int(found["token"]),
        expected_token=int(found["expected_token"]) if reasons & _TOKEN_REASONS else None,
        chain_hash=int(found["chain_hash"], 16),
        expected_position=aux if is_write else None,
        expected_hash=None if is_write else aux,
    )


def _of_body(squeezed: str) -> LoggedViolation | None:
    """What lines 2 to 7 say; the slot stands in the second alone."""
    place = _SECOND_LINE.search(squeezed)
    if place is None:
        return None
    kind, reasons = _KIND.search(squeezed), _REASON_LINE.search(squeezed)
    stored, expected = _STORED.search(squeezed), _EXPECTED.search(squeezed)
    bits = _reasons(reasons["reasons"]) if reasons else FailReason(0)
    return LoggedViolation(
        tag=place["tag"] or (kind["tag"].upper() if kind else ""),
        slot=int(place["slot"]),
        position=int(place["position"]),
        reasons=bits,
        token=_whole(stored, "token"),
        expected_token=_whole(expected, "token") if bits & _TOKEN_REASONS else None,
        chain_hash=_hash(stored),
        expected_position=_whole(expected, "position"),
        expected_hash=_hash(expected),
    )


def _reasons(text: str) -> FailReason:
    reasons = FailReason(0)
    for label in _LABEL.findall(text):
        reasons |= _LABELS[label]
    return reasons


def _whole(found: re.Match[str] | None, name: str) -> int | None:
    return int(found[name]) if found is not None and found[name] is not None else None


def _hash(found: re.Match[str] | None) -> int | None:
    if found is None or found["chain_hash"] is None:
        return None
    return int(found["chain_hash"], 16)
