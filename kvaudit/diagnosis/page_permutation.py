"""KV205 page-permutation: the right content, on pages in the wrong order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.core.severity import Severity
from kvaudit.core.value_index import ValueIndex
from kvaudit.diagnosis.content_moves import Move, MovedContent
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.misplaced import misplaced_explanation
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, counted

RULE = Rule(id="KV205", name="page-permutation", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Pages whose records are each other's: all of it is there, and went round among them.

    A page that is not filled to its end has rubbish of the other behind it: that counts with it.
    """
    explanations = []
    for view in failures.views:
        groups = [moved for moved in view.moved if moved.move is Move.PAGES]
        if groups:
            rows = view.rows.rows[view.with_open(RECORD_REASONS)]
            rows = np.unique(rows[rows >= 0])
            pages = view.evidence.snapshot.slots[rows] // view.evidence.snapshot.page_size
            of_page = ValueIndex(pages)
            explanations += [_explanation(view, moved, rows, of_page=of_page) for moved in groups]
    return explanations


def _explanation(
    view: RecordView, moved: MovedContent, open_rows: NDArray[np.int64], *, of_page: ValueIndex
) -> Explanation:
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
    on_pages = open_rows[of_page.where(np.array(pages))]
    return explanation.with_rows(view.on_rows(on_pages), roots=on_pages)
