"""KV202 foreign-content: a slot holds what another sequence, live or cached, should read."""

from __future__ import annotations

from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_moves import ByteMove, moved_bytes
from kvaudit.diagnosis.content_moves import Move, MovedContent
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.misplaced import content_owner, misplaced_explanation, owner_of
from kvaudit.diagnosis.misplaced_bytes import misplaced_bytes
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.rule import Rule, at, counted

RULE = Rule(id="KV202", name="foreign-content", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Records that are another sequence's: equal to its own, or chained to them.

    Such a chain is right in itself (CASES.md T13): prompts that share a cache key, or a table row
    of another request. The requests of the finding read it; whose content it is stands beside.
    Bytes alone are another sequence's where its stamps fit them.
    """
    records = [
        _explanation(view, moved)
        for view in failures.views
        for moved in view.moved
        if moved.move is Move.FOREIGN
    ]
    return records + [
        misplaced_bytes(RULE, failures.byte_view, moved)
        for moved in moved_bytes(failures.byte_view)
        if moved.move is ByteMove.FOREIGN
    ]


def _explanation(view: RecordView, moved: MovedContent) -> Explanation:
    row, home = int(moved.rows[0]), int(moved.homes[0])
    slots, whose = view.evidence.snapshot.slots, content_owner(view, moved)
    summary = (
        f"{at(int(slots[row]), view.evidence)} of {owner_of(view, row)} holds the content of "
        f"{whose}, which is on {at(int(slots[home]), view.evidence)}; "
        f"{counted(len(moved.rows), 'slot')} in all"
    )
    return misplaced_explanation(
        RULE, view, moved, summary=summary, facts={"content_of": whose.removeprefix("request ")}
    )
