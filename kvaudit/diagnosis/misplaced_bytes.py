"""Bytes of another sequence in a slot whose record is its own, as an explanation."""

from __future__ import annotations

from kvaudit.diagnosis.byte_moves import ByteMove, MovedBytes
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.misplaced import owner_of
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, content_at, hashes_counted


def misplaced_bytes(rule: Rule, view: ByteView, moved: MovedBytes) -> Explanation:
    """Bytes that fit the stamps of one other sequence, or of earlier owners, by a rule."""
    slots = view.evidence.snapshot.slots
    row, home = int(moved.rows[0]), int(moved.homes[0])
    whose = owner_of(view, home)
    owner = whose
    if moved.move is ByteMove.EARLIER:
        owner = "nobody any more" if whose == "nobody" else f"{whose}, which is finished"
    examples = [
        {"slot": slot, "holds_bytes_of_slot": other}
        for slot, other in zip(
            slots[moved.rows[:MAX_EXAMPLES]].tolist(),
            slots[moved.homes[:MAX_EXAMPLES]].tolist(),
            strict=True,
        )
    ]
    return view.claiming(
        Explanation(
            rule=rule,
            cause=moved.rows.tobytes(),
            summary=(
                f"{content_at(int(slots[row]), view.evidence)} of {owner_of(view, row)} has its own record "
                f"and the bytes of {content_at(int(slots[home]), view.evidence)}, which belongs to "
                f"{owner}; {hashes_counted(len(moved.rows), view.evidence)} in all"
            ),
            roots=moved.rows,
            facts={"content_of": whose.removeprefix("request "), "examples": examples},
        )
    )
