"""A log's events, explained: roots first, what was not checked, and what to dump next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kvaudit.core.engine_log import LogEvent, LoggedViolation
from kvaudit.core.log_report import LoggedCause, LoggedSlot, LogReport
from kvaudit.diagnosis.log_coverage import LogCoverage
from kvaudit.diagnosis.log_footprints import UNLINKED, Footprint, footprint_of
from kvaudit.diagnosis.log_groups import ViolationGroups, roots
from kvaudit.diagnosis.log_proofs import proofs_of

# Slots that a call spells out: it is to be pasted.
_MAX_CALL_SLOTS: Final = 16
_DUMP: Final = (
    "dump the pool with the tokens and slots of all requests: kvaudit.capture.dump, in the engine"
)
_DUMP_NOW: Final = (
    "dump the pool while these requests still run, with the tokens and slots of all requests: "
    "kvaudit.capture.dump, in the engine; where bytes fail, stamped by a kvaudit.capture.recorder"
)


def explain_log(events: Iterable[LogEvent]) -> LogReport:
    """What a log says, in bounded memory however long it is."""
    groups, coverage = ViolationGroups(), LogCoverage()
    for event in events:
        coverage.add(event)
        if isinstance(event, LoggedViolation):
            groups.add(event)
    causes = sorted(_causes(groups.slots()), key=_rank)
    return LogReport(
        num_rows=groups.num_rows,
        num_ungrouped=groups.num_ungrouped,
        causes=causes,
        not_checked=coverage.not_checked(),
        notes=coverage.notes(),
        lines={str(kind): count for kind, count in coverage.lines.items()},
        next_steps=_next_steps(causes),
    )


def _causes(slots: Sequence[LoggedSlot]) -> list[LoggedCause]:
    """The roots by what their lines say; one of which something is proved stands alone."""
    alike: dict[tuple[str, Footprint, int | None], list[tuple[LoggedSlot, list[LoggedSlot]]]] = {}
    for number, (root, behind) in enumerate(roots(slots)):
        footprint = footprint_of(root, has_consequence=bool(behind))
        alone = number if proofs_of(root, behind) else None
        alike.setdefault((root.pool_kind, footprint, alone), []).append((root, behind))
    return [_cause(footprint, group) for (_, footprint, _), group in alike.items()]


def _cause(
    footprint: Footprint, group: Sequence[tuple[LoggedSlot, Sequence[LoggedSlot]]]
) -> LoggedCause:
    proofs = proofs_of(*group[0])
    proved = [proof.rule for proof in proofs if proof.rule]
    excluded = {proof.rules_out for proof in proofs}
    return LoggedCause(
        roots=[root for root, _ in group],
        consequences=[slot for _, behind in group for slot in behind],
        says=footprint.says,
        proved=[proof.text for proof in proofs],
        candidates=[
            rule for rule in dict.fromkeys([*proved, *footprint.candidates]) if rule not in excluded
        ],
        open=footprint.open,
        settled_by=footprint.settled_by,
    )


def _rank(cause: LoggedCause) -> tuple[bool, int, int, str, int, int]:
    """Lone broken chains last, since they may follow from something; then by step and by rows."""
    root = cause.roots[0]
    is_lone_chain = cause.says == UNLINKED.says and not cause.proved
    first_step = min((slot.first_step or 0 for slot in cause.roots), default=0)
    return (is_lone_chain, first_step, -cause.num_rows, root.pool_kind, root.slot, root.position)


def _next_steps(causes: Sequence[LoggedCause]) -> list[str]:
    """What to dump, and the calls on the dump."""
    if not causes:
        return [_DUMP, "kvaudit verify DUMP"]
    kinds = sorted({cause.roots[0].pool_kind for cause in causes})
    calls = [call for kind in kinds for call in _calls(kind, causes)]
    return [_DUMP_NOW, "kvaudit verify DUMP", *calls]


def _calls(pool_kind: str, causes: Sequence[LoggedCause]) -> list[str]:
    """The calls that tell of a pool's first root, and show each root with what follows from it."""
    slots: dict[int, None] = {}
    for cause in causes:
        if cause.roots[0].pool_kind == pool_kind:
            for slot in (*cause.roots, *cause.consequences):
                slots[slot.slot] = None
    in_pool = [slot for slot in slots if slot >= 0]
    file = "SWA_SNAPSHOT" if pool_kind == "SWA" else "SNAPSHOT"
    if not in_pool:
        return [f"kvaudit show {file}"]
    calls = [f"kvaudit blame {file} {in_pool[0]}"]
    if len(in_pool) > 1:
        named = ",".join(map(str, sorted(in_pool[:_MAX_CALL_SLOTS])))
        calls.append(f"kvaudit show {file} --slot {named}")
    return calls
