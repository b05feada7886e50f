"""The records of matched slots: what each says of token, position and predecessor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_REAL_KV_HASH,
    RECORD_TOKEN,
    FailReason,
)
from kvaudit.core.claims import Claims
from kvaudit.core.comparison_evidence import SlotPairs
from kvaudit.core.launch_tag import KvHalf, LaunchPhase, launch_tag
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation
from kvaudit.runner.compare.matching import Matching
from kvaudit.runner.compare.side import Side

_WORDS: Final = {
    RECORD_TOKEN: FailReason.VERIFY_TOKEN_MISMATCH,
    RECORD_POSITION: FailReason.VERIFY_POSITION_MISMATCH,
    RECORD_PREV_HASH: FailReason.VERIFY_CHAIN_HASH_MISMATCH,
}
_PAIRS_PER_LOOK: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordDifferences:
    """Pairs whose records differ.

    Fields:
        buffers: record columns that were compared.
        pairs: shape [m], int64, ascending.
        reasons: what of each differs in any buffer, shape [m], uint32, bits of FailReason.
        by_buffer: the differing pairs of each buffer and what of them differs; shape [k] each.
    """

    buffers: tuple[str, ...]
    pairs: NDArray[np.int64]
    reasons: NDArray[np.uint32]
    by_buffer: dict[str, tuple[NDArray[np.int64], NDArray[np.uint32]]]


def compare_records(left: Side, right: Side, matching: Matching) -> RecordDifferences:
    """Compare the records of every buffer that both dumps stamped.

    real_kv_hash is left out: the bytes themselves are compared, and ranks hold others by right. So
    are records that were matched by their hash, which is of all the rest.

    Raises:
        FileCorrupt: a chunk's digest differs.
    """
    buffers = tuple(name for name in left.buffers if name in right.buffers)
    pairs = matching.pairs
    reasons = np.zeros(len(pairs), dtype=np.uint32)
    by_buffer = {}
    offset = right.snapshot.position_offset - left.snapshot.position_offset
    for buffer in buffers:
        chosen: NDArray[np.int64] | None = None
        if buffer == matching.named_by and not offset:
            chosen = np.flatnonzero(~matching.by_content)
            pairs = SlotPairs(
                left_rows=matching.pairs.left_rows[chosen],
                right_rows=matching.pairs.right_rows[chosen],
            )
        else:
            pairs = matching.pairs
        bits = _differences(left, right, buffer, pairs=pairs)
        found = np.flatnonzero(bits)
        if found.size:
            differing = found if chosen is None else chosen[found]
            by_buffer[buffer] = (differing, bits[found])
            reasons[differing] |= bits[found]
    found = np.flatnonzero(reasons)
    return RecordDifferences(
        buffers=buffers, pairs=found, reasons=reasons[found], by_buffer=by_buffer
    )


def _differences(left: Side, right: Side, buffer: str, *, pairs: SlotPairs) -> NDArray[np.uint32]:
    """What of each pair's record differs, shape [n], uint32."""
    ours, theirs = left.records(buffer), right.records(buffer)
    offset = right.snapshot.position_offset - left.snapshot.position_offset
    bits = np.zeros(len(pairs), dtype=np.uint32)
    # A part at a time: what is between is then in a core's cache, not in fresh memory.
    for first in range(0, len(pairs), _PAIRS_PER_LOOK):
        part = slice(first, first + _PAIRS_PER_LOOK)
        one, other = ours[pairs.left_rows[part]], theirs[pairs.right_rows[part]]
        if offset:
            one = one.copy()
            one[one.any(axis=1), RECORD_POSITION] += offset
        for word, reason in _WORDS.items():
            bits[part] |= np.where(one[:, word] != other[:, word], np.uint32(reason), np.uint32(0))
    return bits


def record_violations(
    differences: RecordDifferences,
    left: Side,
    right: Side,
    *,
    key: PoolKey,
    pairs: SlotPairs,
    claims: Claims,
    max_rows: int,
) -> list[Violation]:
    """The rows of the first max_rows differing records of each buffer, as the right dump has them."""
    rows = []
    for buffer, (found, reasons) in differences.by_buffer.items():
        shown = found[:max_rows]
        half, phase = buffer.split(".")
        tag = launch_tag(LaunchPhase[phase.upper()], KvHalf[half.upper()], key.pool_kind)
        ours = left.records(buffer)[pairs.left_rows[shown]].tolist()
        theirs = right.records(buffer)[pairs.right_rows[shown]].tolist()
        offset = right.snapshot.position_offset - left.snapshot.position_offset
        names = requests_by_row(claims, pairs.right_rows[shown])
        for number, row in enumerate(pairs.right_rows[shown].tolist()):
            stored, expected = theirs[number], ours[number]
            rows.append(
                Violation(
                    tag=tag,
                    key=key,
                    entry=None,
                    slot=int(right.snapshot.slots[row]),
                    position=stored[RECORD_POSITION],
                    expected_position=expected[RECORD_POSITION] + offset,
                    token=stored[RECORD_TOKEN],
                    expected_token=expected[RECORD_TOKEN],
                    chain_hash=stored[RECORD_PREV_HASH],
                    expected_chain_hash=expected[RECORD_PREV_HASH],
                    real_kv_hash=stored[RECORD_REAL_KV_HASH],
                    reasons=FailReason(int(reasons[number])),
                    request_ids=tuple(names.get(row, ())),
                    step=key.step,
                )
            )
    return rows


def requests_by_row(claims: Claims, rows: NDArray[np.int64]) -> dict[int, list[str]]:
    """The requests that hold each of some rows, shape [n], int64, in input order."""
    found = claims.of_rows(rows)
    names: dict[int, list[str]] = {}
    for row, name in zip(claims.rows[found].tolist(), claims.request_ids_of(found), strict=True):
        if name is not None and name not in names.setdefault(row, []):
            names[row].append(name)
    return names
