"""KV203 late-writer: a slot was written over by whoever had it before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_EXPECTED_TOKEN, FailReason
from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_moves import ByteMove, moved_bytes
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.content_homes import MAX_TOKEN
from kvaudit.diagnosis.content_moves import Move, MovedContent
from kvaudit.diagnosis.earlier_owners import EarlierBytes, earlier_bytes
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.misplaced import content_owner, misplaced_explanation, owner_of
from kvaudit.diagnosis.misplaced_bytes import misplaced_bytes
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.row_sets import differing_at
from kvaudit.diagnosis.rule import Rule, at, counted
from kvaudit.kernels.hash.arrays import mixed, unmixed

RULE = Rule(id="KV203", name="late-writer", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Content of an earlier owner; or a record that took the place of the right one.

    An earlier owner is a finished sequence, or one whose records are left on slots that nobody
    claims. Without one, a successor that is chained to the right record proves that this was there
    and was written over later. What is proved by neither is of no sequence in the dump, so its
    writer is one of before; but whose it is stays open. Bytes alone are an earlier owner's where
    its stamps fit them, wherever these are, or were until the slots were given away.
    """
    view = failures.byte_view
    explanations = [_as_before(view, earlier) for earlier in earlier_bytes(view)] + [
        misplaced_bytes(RULE, view, moved)
        for moved in moved_bytes(view)
        if moved.move is ByteMove.EARLIER
    ]
    for records in failures.views:
        groups = [group for group in records.moved if group.move is Move.EARLIER]
        explanations += [_of_an_owner(records, group) for group in groups]
        known = np.concatenate([np.empty(0, dtype=np.int64), *(group.rows for group in groups)])
        explanations += _written_over(records, known)
    return explanations


def _as_before(view: ByteView, earlier: EarlierBytes) -> Explanation:
    """Bytes that an earlier owner had in the same slots."""
    row, count = int(earlier.rows[0]), len(earlier.rows)
    slot = int(view.evidence.snapshot.slots[row])
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=earlier.rows.tobytes(),
            summary=(
                f"{at(slot, view.evidence)} of {owner_of(view, row)} has its own record and the "
                f"bytes that {earlier.owner} had there before; {counted(count, 'slot')} in all"
            ),
            roots=earlier.rows,
            facts={"content_of": earlier.owner.removeprefix("request ")},
        )
    )


def _of_an_owner(view: RecordView, moved: MovedContent) -> Explanation:
    row, home = int(moved.rows[0]), int(moved.homes[0])
    slots, whose = view.evidence.snapshot.slots, content_owner(view, moved)
    owner = "nobody any more" if whose == "nobody" else f"{whose}, which is finished"
    summary = (
        f"{at(int(slots[row]), view.evidence)} holds the content of "
        f"{at(int(slots[home]), view.evidence)}, which belongs to {owner}; "
        f"{counted(len(moved.rows), 'slot')} in all"
    )
    facts = {"content_of": whose.removeprefix("request "), **_allocator(view, moved.rows)}
    return misplaced_explanation(RULE, view, moved, summary=summary, facts=facts)


def _written_over(view: RecordView, known: NDArray[np.int64]) -> list[Explanation]:
    """Rows whose record is of no sequence in the dump, in runs of their sequence."""
    rows = view.rows
    broken = view.with_open(FailReason.VERIFY_CHAIN_HASH_MISMATCH)
    broken = broken[~np.isin(rows.rows[broken], known) & ~np.isin(rows.prev_rows[broken], known)]
    bits = view.all_open_reasons[broken] & np.uint32(RECORD_REASONS)
    # Nothing but the chain check, and whole for its own successor: a consequence, behind a bad row.
    is_sound = bits == np.uint32(FailReason.VERIFY_CHAIN_HASH_MISMATCH)
    is_sound &= ~np.isin(rows.rows[broken], rows.prev_rows[broken])
    blames_predecessor = view.holds_another_token(broken)
    # Another claim's content, or none: neither these rows nor those behind them were written over.
    zero = view.homes.failed_rows[view.is_zero(view.homes.failed_rows)]
    bad = {*view.homes.fitting.tolist(), *zero.tolist()}
    runs = []
    for at_row, prev_row, sound, blames in zip(
        rows.rows[broken].tolist(),
        rows.prev_rows[broken].tolist(),
        is_sound.tolist(),
        blames_predecessor.tolist(),
        strict=True,
    ):
        root = prev_row if blames else at_row
        if root in bad or (sound and prev_row in bad):
            continue
        run = _chained_behind(view, root)
        bad.update(run)
        runs.append(run)
    return [_explanation(view, run) for run in _joined(view, runs)]


def _chained_behind(view: RecordView, root: int) -> list[int]:
    """A bad row and those behind it in its sequence that are chained to it: all one writer's."""
    claims = view.evidence.claims
    claim, run = int(view.homes.first_claims[root]), [root]
    while claim + 1 < len(claims) and int(claims.prev_rows[claim + 1]) == run[-1]:
        claim += 1
        row = int(claims.rows[claim])
        if row < 0 or view.prev_hashes[row] != view.slot_hashes[run[-1]]:
            break
        run.append(row)
    return run


def _joined(view: RecordView, runs: list[list[int]]) -> list[NDArray[np.int64]]:
    """Runs that follow one another in a sequence as one."""
    claims, first = view.evidence.claims, view.homes.first_claims
    joined: list[list[int]] = []
    for run in sorted(runs, key=lambda run: int(first[run[0]])):
        if joined and int(claims.prev_rows[first[run[0]]]) == joined[-1][-1]:
            joined[-1] += run
        else:
            joined.append(list(run))
    return [np.array(run, dtype=np.int64) for run in joined]


def _explanation(view: RecordView, run: NDArray[np.int64]) -> Explanation:
    row = int(run[0])
    slot = int(view.evidence.snapshot.slots[row])
    was = _token_before(view, run)
    more = f"; {counted(len(run), 'slot')} in a row" if len(run) > 1 else ""
    what = f"{at(slot, view.evidence)} of {owner_of(view, row)} was written over"
    facts: dict[str, Any] = {
        "token": int(view.tokens[row : row + 1].view(np.int64)[0]),
        "position": int(view.positions[row : row + 1].view(np.int64)[0]),
        **_allocator(view, run),
    }
    if was is None:
        summary = f"{what} by a chain that no sequence in the dump has{more}"
        alternatives, settled_by = (
            ["KV202"],
            "the sequences that held the slot before, as finished rows, or `alloc.owner`",
        )
    else:
        summary = f"{what} after its successor was chained to token {was}{more}"
        facts["token_before"] = was
        alternatives, settled_by = [], ""
    return Explanation(
        rule=RULE,
        cause=run.tobytes(),
        summary=summary,
        roots=run,
        failed=view.on_rows(run),
        reasons=RECORD_REASONS,
        columns=differing_at(view.evidence.differing, run),
        facts=facts,
        alternatives=alternatives,
        settled_by=settled_by,
    )


def _token_before(view: RecordView, run: NDArray[np.int64]) -> int | None:
    """The token that a single bad row had when its successor was written; None if that is open."""
    claims = view.evidence.claims
    claim = int(view.homes.first_claims[run[0]])
    prev_row = int(claims.prev_rows[claim])
    ends = claim + 1 >= len(claims) or claims.prev_rows[claim + 1] != run[0]
    next_row = -1 if ends else int(claims.rows[claim + 1])
    if len(run) > 1 or next_row < 0:
        return None
    if prev_row >= 0:
        before = view.slot_hashes[prev_row : prev_row + 1]
    else:
        before = view.rows.expected_chain_hashes[view.on_rows(run)[:1]]
    hashes = unmixed(view.prev_hashes[next_row : next_row + 1])
    position = claims.positions[claim : claim + 1].view(np.uint64)
    tokens = (unmixed(hashes ^ position) ^ mixed(before)).tolist()
    expected = int(claims.tokens[claim])
    if not tokens or tokens[0] >= MAX_TOKEN or expected not in (NO_EXPECTED_TOKEN, tokens[0]):
        return None
    return int(tokens[0])


def _allocator(view: RecordView, rows: NDArray[np.int64]) -> dict[str, Any]:
    """What the allocator says of the first row, where it says anything."""
    owners = view.evidence.columns.get("alloc.owner")
    owner = None if owners is None else owners[rows[0]]
    return {} if owner is None else {"alloc_owner": owner}
