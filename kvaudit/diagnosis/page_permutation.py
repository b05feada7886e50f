"""KV205 page-permutation: the right content, on pages in the wrong order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.severity import Severity
from kvaudit.diagnosis.content_moves import Move, MovedContent
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.misplaced import misplaced_explanation
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, counted

RULE = Rule(id="KV205", name="page-permutation", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Pages whose records are each other's: all of it is there, and went round among them.

    A page that is not filled to its end has rubbish of the other behind it, or what was written
    since: that counts with it.
    """
    return [
        _explanation(view, moved)
        for view in failures.views
        for moved in view.moved
        if moved.move is Move.PAGES
    ]


def _explanation(view: RecordView, moved: MovedContent) -> Explanation:
    snapshot = view.evidence.snapshot
    pages = (snapshot.slots[moved.rows] // snapshot.page_size).tolist()
    homes = (snapshot.slots[moved.homes] // snapshot.page_size).tolist()
    belongs = dict(zip(pages, homes, strict=True))
    held = [
        {"page": page, "holds_content_of_page": home}
        for page, home in list(belongs.items())[:MAX_EXAMPLES]
    ]
    first = next(iter(belongs))
    summary = (
        f"page {first} holds the content of page {belongs[first]}: "
        f"{counted(len(belongs), 'page')} of right content are in the wrong order"
    )
    explanation = misplaced_explanation(
        RULE, view, moved, summary=summary, facts={"num_pages": len(belongs), "pages": held}
    )
    rows = _claimed_rows(view, list(belongs))
    return explanation.with_rows(view.on_rows(rows), roots=rows)


def _claimed_rows(view: RecordView, pages: list[int]) -> NDArray[np.int64]:
    """The rows of pages that anybody claims, shape [n], int64, ascending: none is as it should be.

    Those without a record are not judged, but what is chained to them fails.
    """
    snapshot = view.evidence.snapshot
    first_slots = np.array(pages, dtype=np.int64)[:, None] * snapshot.page_size
    rows = snapshot.rows_of((first_slots + np.arange(snapshot.page_size)).ravel())
    rows = np.unique(rows[rows >= 0])
    claimed: NDArray[np.int64] = rows[view.homes.first_claims[rows] >= 0]
    return claimed
