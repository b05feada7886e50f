"""KV308 side-buffer-stale: a slot's scales or other side buffers are not its own; its K and V are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.column_names import column_layer
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_moves import homes_in
from kvaudit.diagnosis.byte_view import ByteView, Channel
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.row_sets import among
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, content_at, hashes_counted

RULE = Rule(id="KV308", name="side-buffer-stale", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Rows of which nothing but side buffers differs: they were not moved with K and V.

    What they hold instead is told where it is zero or the stamp of another slot.
    """
    view = failures.byte_view
    sides, layers = [], [np.empty(0, dtype=np.int64)]
    for channel in view.channels():
        if channel.is_column and column_layer(channel.name) is None:
            sides.append(channel)
        else:
            layers.append(channel.rows)
    if not sides:
        return []
    rows = np.unique(np.concatenate([channel.rows for channel in sides]))
    rows = np.setdiff1d(rows, np.concatenate(layers))
    return [_explanation(view, run, sides) for run in view.bounded_runs(rows)]


def _explanation(view: ByteView, run: NDArray[np.int64], sides: list[Channel]) -> Explanation:
    slots = view.evidence.snapshot.slots
    here = [channel for channel in sides if among(run, channel.rows).any()]
    names = [channel.name for channel in here]
    more = f"; {hashes_counted(len(run), view.evidence)} in a row" if len(run) > 1 else ""
    is_known = _layers_are_stamped(view)
    beside = "its K and V are as stamped" if is_known else "its K and V have no stamps"
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=run.tobytes(),
            summary=(
                f"{', '.join(names)} of {content_at(slots[run[0]], view.evidence)} "
                f"{_what_it_holds(view, here[0], run)}, and {beside}{more}"
            ),
            roots=run,
            facts={"columns": names[:MAX_EXAMPLES], "num_columns": len(names)},
            alternatives=() if is_known else ("KV301",),
            settled_by="" if is_known else "stamps of K and V",
        ),
        columns=names,
    )


def _layers_are_stamped(view: ByteView) -> bool:
    snapshot = view.evidence.snapshot
    return bool(snapshot.stamped_columns) or any(
        column_layer(name) is not None for name in snapshot.stamped
    )


def _what_it_holds(view: ByteView, channel: Channel, run: NDArray[np.int64]) -> str:
    """What stands in the first row of a run that a channel has."""
    place = int(np.flatnonzero(np.isin(channel.rows, run))[0])
    held = channel.held[place : place + 1]
    if not held[0]:
        return "is zero"
    home = int(homes_in(channel.written, held)[0])
    if home < 0:
        return "is not what was stamped"
    return f"is that of {content_at(view.evidence.snapshot.slots[home], view.evidence)}"
