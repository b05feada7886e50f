"""What the verdict of a comparison says nothing about, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Final

import numpy as np

from kvaudit.core.comparison_evidence import PoolAtStep
from kvaudit.diagnosis.rule import counted
from kvaudit.runner.compare.join import RequestJoin
from kvaudit.runner.compare.leg_bytes import LegBytes
from kvaudit.runner.compare.matching import Matching, num_distinct
from kvaudit.runner.compare.side import Side

_MAX_NAMED: Final = 3


def unchecked(
    left: Side,
    right: Side,
    *,
    matching: Matching,
    bytes_: LegBytes,
    states: Sequence[PoolAtStep],
) -> list[str]:
    """What of one leg could not be matched or compared, one sentence each."""
    sentences = [] if not matching.lacks else [f"no slot is matched: {matching.lacks}"]
    unmatched = int(np.count_nonzero(matching.due & ~matching.found))
    if unmatched:
        due = int(np.count_nonzero(matching.due))
        sentences.append(
            f"{unmatched:,} of {due:,} slots of {left.letter}: {right.letter} has none of their content"
        )
    wanted = int(np.count_nonzero(matching.wanted))
    extra = wanted - num_distinct(matching.pairs.right_rows)
    if extra:
        sentences.append(
            f"{extra:,} of {wanted:,} slots of {right.letter}: {left.letter} has none of their content"
        )
    sentences += matching.unchecked
    if matching.requests is not None:
        sentences += _requests(left, right, matching.requests)
    sentences += _records(left, right)
    sentences += _columns(bytes_)
    return [*sentences, *_failing(states)]


def _requests(left: Side, right: Side, join: RequestJoin) -> list[str]:
    """Requests that one dump alone names, and positions of both that it alone has slots of."""
    sentences = []
    for names, side in ((join.left_only, left), (join.right_only, right)):
        if names:
            noun = "request" if len(names) == 1 else "requests"
            sentences.append(f"{noun} {_some(names)}: {side.letter} alone holds them")
    if len(join.left_behind):
        sentences.append(
            f"{counted(len(join.left_behind), 'position')} of requests: {right.letter} ends before "
            "them"
        )
    for side, elements in ((left, join.left_elements), (right, join.right_elements)):
        absent = int(np.count_nonzero(side.held_rows[elements] < 0))
        if absent:
            sentences.append(
                f"{counted(absent, 'position')} of requests: {side.letter} lacks the slots"
            )
    return sentences


def _records(left: Side, right: Side) -> list[str]:
    """Record columns that hold records in one dump alone."""
    sentences = []
    for side, other in ((left, right), (right, left)):
        names = [f"canary.{name}" for name in side.buffers if name not in other.buffers]
        if names:
            sentences.append(f"{_some(names)}: {side.letter} alone has records in it")
    return sentences


def _columns(leg: LegBytes) -> list[str]:
    """Columns that were not compared, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, why in leg.columns.left_out.items():
        by_reason.setdefault(why, []).append(name)
    sentences = [f"{_some(names)}: {why}" for why, names in by_reason.items()]
    if leg.num_due > leg.num_compared and leg.columns.compared:
        sentences.append(
            f"{leg.num_due - leg.num_compared:,} of {leg.num_due:,} pages: their slots lie in other "
            "pages or another order, which their digests do not tell"
        )
    restored = int(np.count_nonzero(leg.restored))
    if restored:
        sentences.append(
            f"{counted(restored, 'slot')} of this dump as A has it, and not as B does: damage came to "
            "B after it was read"
        )
    if leg.undecided:
        sentences.append(
            f"{counted(leg.undecided, 'different digest')} may be right: only bytes tell"
        )
    return sentences


def _failing(states: Sequence[PoolAtStep]) -> list[str]:
    """Failed rows that did not become more: those that did are a finding."""
    in_order = sorted(states, key=lambda state: state.step)
    if not in_order or in_order[-1].num_failed > in_order[0].num_failed:
        return []
    return [
        f"{counted(state.num_failed, 'failed row')} at step {state.step}: "
        f"kvaudit verify {quote(state.path)} names them"
        for state in in_order
        if state.num_failed
    ]


def _some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    rest = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
