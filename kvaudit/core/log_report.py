"""What an engine's log says, grouped: before any screen, and without what no log can say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kvaudit.constants import FailReason
from kvaudit.core.engine_log import WRITE_REASONS
from kvaudit.core.fail_reason import reason_labels
from kvaudit.core.violation import hash_label

LOG_SCHEMA: Final = "kvaudit.log/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSlot:
    """All that a log prints of one content of one slot: of head and tail, K and V, steps and ranks.

    Fields:
        pool_kind: `FULL` or `SWA`, whose slots have numbers of their own; "" of an unknown tag.
        slot: in the numbering of that pool.
        position: verify: stored; write: the position being written.
        token: verify: stored; write: the token being written; None where it is not printed.
        chain_hash: verify: stored prev_hash; write: running hash before the slot.
        reasons: what differed, over all rows.
        expected_tokens: ascending; empty where none was checked.
        expected_positions: ascending; of writes, and of the oldest texts.
        expected_hashes: expected prev_hash, ascending; several where several requests read the slot.
        tags: names of the launch tags, in the log's order.
        ranks: in the log's order; empty where no prefix names one.
        first_step: of the host's first read that printed it; None where no step is printed.
        last_step: of the last one.
        num_rows: rows printed.
    """

    pool_kind: str
    slot: int
    position: int
    token: int | None
    chain_hash: int | None
    reasons: FailReason
    expected_tokens: Sequence[int] = ()
    expected_positions: Sequence[int] = ()
    expected_hashes: Sequence[int] = ()
    tags: Sequence[str] = ()
    ranks: Sequence[str] = ()
    first_step: int | None = None
    last_step: int | None = None
    num_rows: int

    @property
    def is_write(self) -> bool:
        """Whether write launches found it."""
        return bool(self.reasons & WRITE_REASONS)

    def to_dict(self) -> dict[str, Any]:
        """The slot as JSON values."""
        return {
            "pool_kind": self.pool_kind,
            "slot": self.slot,
            "position": self.position,
            "token": self.token,
            "chain_hash": hash_label(self.chain_hash),
            "reasons": list(reason_labels(self.reasons)),
            "expected_tokens": list(self.expected_tokens),
            "expected_positions": list(self.expected_positions),
            "expected_chain_hashes": [hash_label(value) for value in self.expected_hashes],
            "tags": list(self.tags),
            "ranks": list(self.ranks),
            "first_step": self.first_step,
            "last_step": self.last_step,
            "rows": self.num_rows,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCause:
    """Roots of one footprint with what follows from them, and how far their lines go.

    Where hashes prove something of a root it stands alone.

    Fields:
        roots: slots of one pool, in the log's order.
        consequences: slots of which only the chain failed, and whose expected hash is that of a
            root's own record.
        says: what the lines say.
        proved: what follows from the hashes that are printed.
        candidates: rules whose faults leave these lines, most likely first.
        open: what the lines cannot tell.
        settled_by: what a dump adds that tells it.
    """

    roots: Sequence[LoggedSlot]
    consequences: Sequence[LoggedSlot] = ()
    says: str
    proved: Sequence[str] = ()
    candidates: Sequence[str]
    open: str
    settled_by: str

    @property
    def num_rows(self) -> int:
        """Rows printed of the roots and of what follows from them."""
        return sum(slot.num_rows for slot in (*self.roots, *self.consequences))

    def to_dict(self) -> dict[str, Any]:
        """The cause as JSON values."""
        return {
            "roots": [slot.to_dict() for slot in self.roots],
            "consequences": [slot.to_dict() for slot in self.consequences],
            "says": self.says,
            "proved": list(self.proved),
            "candidates": list(self.candidates),
            "open": self.open,
            "settled_by": self.settled_by,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNote:
    """What was not checked, or what else the log's reader must know.

    Fields:
        rule: the rule that it is a case of; "" of none.
        text: one sentence.
    """

    rule: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The note as JSON values."""
        return {"rule": self.rule, "text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """A log, explained.

    Fields:
        num_rows: violations printed.
        num_ungrouped: those of them past what is kept in memory.
        causes: earliest step first, then most rows first; what may only follow from others last.
        not_checked: coverage that was lost.
        notes: what else the log says of its canary.
        lines: lines of the canary that are no violations, counted by kind.
        next_steps: what to dump, and the calls to run on it.
    """

    num_rows: int
    num_ungrouped: int
    causes: Sequence[LoggedCause]
    not_checked: Sequence[LogNote]
    notes: Sequence[LogNote]
    lines: Mapping[str, int] = field(default_factory=dict)
    next_steps: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """One JSON document."""
        return {
            "schema": LOG_SCHEMA,
            "rows": self.num_rows,
            "ungrouped": self.num_ungrouped,
            "causes": [cause.to_dict() for cause in self.causes],
            "not_checked": [note.to_dict() for note in self.not_checked],
            "notes": [note.to_dict() for note in self.notes],
            "lines": dict(self.lines),
            "next_steps": list(self.next_steps),
        }
