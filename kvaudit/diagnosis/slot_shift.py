"""KV206 slot-shift: a sequence's own content, on slots of other positions of it."""

from __future__ import annotations

from kvaudit.core.severity import Severity
from kvaudit.diagnosis.content_moves import Move, MovedContent
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.misplaced import misplaced_explanation, owner_of
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.rule import Rule, at, counted

RULE = Rule(id="KV206", name="slot-shift", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Records that were chained as their sequence asks, and lie where it has another position.

    Their slots were computed from a wrong position. Where the position that was stamped is wrong
    on the right slot, the chain is whole: that is a position-shift.
    """
    return [
        _explanation(view, moved)
        for view in failures.views
        for moved in view.moved
        if moved.move is Move.SLOTS
    ]


def _explanation(view: RecordView, moved: MovedContent) -> Explanation:
    row = int(moved.rows[0])
    slot = int(view.evidence.snapshot.slots[row])
    home = int(view.evidence.snapshot.slots[moved.homes[0]])
    side = "before" if moved.shift > 0 else "behind"
    summary = (
        f"{at(slot, view.evidence)} holds what {owner_of(view, row)} has on {at(home, view.evidence)}: "
        f"{counted(len(moved.rows), 'slot')} with content that belongs "
        f"{counted(abs(moved.shift), 'position')} {side}"
    )
    return misplaced_explanation(RULE, view, moved, summary=summary, facts={"shift": moved.shift})
