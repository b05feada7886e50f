"""What differs between two dumps of one pool, in words and as facts: KV401 and KV402 share it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from shlex import quote
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import RECORD_POSITION, RECORD_PREV_HASH, RECORD_TOKEN, FailReason
from kvaudit.core.comparison_evidence import LegEvidence, TableDifference
from kvaudit.core.fail_reason import reason_labels
from kvaudit.core.layout import slot_label
from kvaudit.core.tainted_requests import tainted_requests
from kvaudit.core.violation import hash_label
from kvaudit.diagnosis.byte_difference import ByteDifference, byte_difference
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits
from kvaudit.kernels.hash.arrays import bits_set

# Bits that turn over together: more are no flip.
_MAX_FLIPPED: Final = 3
_COLUMNS_LISTED: Final = 100
_WORDS: Final = {
    "token": (RECORD_TOKEN, FailReason.VERIFY_TOKEN_MISMATCH),
    "position": (RECORD_POSITION, FailReason.VERIFY_POSITION_MISMATCH),
    "prev_hash": (RECORD_PREV_HASH, FailReason.VERIFY_CHAIN_HASH_MISMATCH),
}
_COMPARED_WORDS: Final = [word for word, _ in _WORDS.values()]


class LegDifferences:
    """The differences of one leg, looked at as far as a finding tells of them."""

    def __init__(self, evidence: LegEvidence) -> None:
        self._evidence = evidence

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Pairs with any difference, shape [n], int64, ascending; very many are cut to the first."""
        evidence = self._evidence
        return np.unique(np.concatenate([evidence.records, *evidence.differing.values()]))

    @property
    def rows(self) -> NDArray[np.int64]:
        """Their rows of the right dump, shape [n], int64."""
        return self._evidence.pairs.right_rows[self.pairs]

    def hits(self) -> Hits:
        """The slots, the requests that they taint, and the first few in full."""
        evidence = self._evidence
        names = tainted_requests(evidence.claims, self.rows)
        return Hits(
            slots=evidence.right.slots[self.rows],
            request_ids=[*names, *(each.request_id for each in evidence.tables)],
            examples=tuple(
                [self._example(pair) for pair in self.pairs[:MAX_EXAMPLES].tolist()]
                or [_table_example(each) for each in evidence.tables[:MAX_EXAMPLES]]
            ),
        )

    def facts(self) -> dict[str, Any]:
        """Counts, exact, and the columns concerned."""
        evidence = self._evidence
        values: dict[str, Any] = {"leg": evidence.name, "num_slots": evidence.num_differing}
        if evidence.differing:
            columns = list(evidence.differing)
            values |= {"num_columns": len(columns), "columns": columns[:_COLUMNS_LISTED]}
        counts = {
            "num_records": len(evidence.records),
            "num_zero": int(np.count_nonzero(evidence.zero)),
            "num_held_elsewhere": int(np.count_nonzero(evidence.sources >= 0)),
            "num_tables": evidence.num_tables,
        }
        values |= {name: count for name, count in counts.items() if count}
        if evidence.carried_to and evidence.num_carried_on:
            values[f"num_carried_on_to_{evidence.carried_to}"] = evidence.num_carried_on
        return values

    def words(self) -> str:
        """The first difference: where it is, and what differs."""
        evidence = self._evidence
        if not len(self.pairs):
            return _table_words(evidence.tables[0], evidence)
        pair = int(self.pairs[0])
        where = self._place(pair)
        reasons = evidence.reasons_of(pair)
        if reasons:
            return f"{where}: {', '.join(self._record_words(pair, reasons))}"
        name = self._columns_of(pair)[0]
        return f"{where}: {name} {self._column_words(pair, name)}"

    def alternatives(self) -> tuple[str, ...]:
        """The rules that would name what happened, most likely first."""
        evidence = self._evidence
        if len(evidence.records):
            return self._record_alternatives()
        if not evidence.differing:
            return ()
        if evidence.zero.size and evidence.zero.all():
            return ("KV302", "KV311")
        if evidence.sources.size and (evidence.sources >= 0).all():
            return ("KV310", "KV202")
        first = int(self.pairs[0])
        found = self.bytes_of(first, self._columns_of(first)[0])
        if found is not None and found.num_bits <= _MAX_FLIPPED:
            return ("KV304", "KV301")
        return ("KV203", "KV303", "KV301")

    def settled_by(self) -> str:
        """What would tell more."""
        evidence = self._evidence
        if not len(self.pairs):
            return ""
        if evidence.differing and not self._has_bytes(next(iter(evidence.differing))):
            return "bytes in both dumps: digests alone do not tell which of them differ"
        return f"kvaudit verify {quote(evidence.right.path)}, where it is stamped: the rule of its rows"

    def _record_alternatives(self) -> tuple[str, ...]:
        """The rules that fit the first record that differs: one whose chain does not, if any."""
        evidence = self._evidence
        follows = evidence.reasons & np.uint32(FailReason.VERIFY_CHAIN_HASH_MISMATCH)
        pair = int(evidence.records[np.argmin(follows)])
        buffer, ours, theirs = self._records_at(pair)
        if not theirs.any():
            is_gone = evidence.zero.size and evidence.zero.all()
            return ("KV311", "KV209") if is_gone else ("KV209", "KV311")
        num_bits = int(bits_set((ours ^ theirs).view(np.uint64)).sum())
        if len(evidence.records) == 1 and num_bits <= _MAX_FLIPPED:
            return ("KV208",)
        everyone = evidence.left.canary[buffer].read()[:, _COMPARED_WORDS]
        if (everyone == theirs).all(axis=1).any():
            return ("KV202", "KV205", "KV206")
        by_reasons = {
            FailReason.VERIFY_POSITION_MISMATCH: ("KV204", "KV207"),
            FailReason.VERIFY_TOKEN_MISMATCH: ("KV201", "KV203"),
        }
        return by_reasons.get(evidence.reasons_of(pair), ("KV203", "KV202"))

    def _has_bytes(self, name: str) -> bool:
        return name in self._evidence.left.kv and name in self._evidence.right.kv

    def bytes_of(self, pair: int, name: str) -> ByteDifference | None:
        """Where the bytes of a pair part in a column; None without bytes in both dumps."""
        evidence = self._evidence
        if not self._has_bytes(name):
            return None
        ours = evidence.left_content.kv_bytes(name, evidence.pairs.left_rows[pair : pair + 1])
        theirs = evidence.right_content.kv_bytes(name, evidence.pairs.right_rows[pair : pair + 1])
        if ours is None or theirs is None:
            return None
        # What no digest covers is not compared.
        covered = slice(0, evidence.left.kv[name].read_bytes)
        return byte_difference(ours[0, covered], theirs[0, covered])

    def _columns_of(self, pair: int) -> list[str]:
        """The columns that differ at a pair, in layer order."""
        names = []
        for name, found in self._evidence.differing.items():
            at = int(np.searchsorted(found, pair))
            if at < len(found) and int(found[at]) == pair:
                names.append(name)
        return names

    def _place(self, pair: int) -> str:
        """`slot 7 (page 3 +1), which is slot 19 (page 9 +1) of A`."""
        evidence = self._evidence
        right = int(evidence.right.slots[evidence.pairs.right_rows[pair]])
        left = int(evidence.left.slots[evidence.pairs.left_rows[pair]])
        words = slot_label(right, evidence.right.page_size)
        if left == right and evidence.left.page_size == evidence.right.page_size:
            return words
        return (
            f"{words}, which is {slot_label(left, evidence.left.page_size)} of {evidence.name[0]}"
        )

    def _record_words(self, pair: int, reasons: FailReason) -> list[str]:
        values = self._record_values(pair)
        return [
            f"{name} {values[name][1]}, and not {values[name][0]}"
            for name, (_, reason) in _WORDS.items()
            if reason & reasons and values[name][0] != values[name][1]
        ]

    def _record_values(self, pair: int) -> dict[str, tuple[object, object]]:
        """Words of the first buffer whose records differ there, (left, right) each."""
        _, ours, theirs = self._records_at(pair)
        values: dict[str, tuple[object, object]] = {
            name: (int(ours[place]), int(theirs[place])) for place, name in enumerate(_WORDS)
        }
        values["prev_hash"] = (hash_label(int(ours[-1])), hash_label(int(theirs[-1])))
        return values

    def _records_at(self, pair: int) -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
        """The first record column in which a pair differs, and the compared words; [3], int64 each."""
        evidence = self._evidence
        found = ("", np.zeros(len(_WORDS), np.int64), np.zeros(len(_WORDS), np.int64))
        for buffer in sorted(evidence.right.canary, key=_tails_first):
            if buffer not in evidence.left.canary:
                continue
            ours, theirs = (
                snapshot.canary[buffer].read()[row, _COMPARED_WORDS]
                for snapshot, row in (
                    (evidence.left, evidence.pairs.left_rows[pair]),
                    (evidence.right, evidence.pairs.right_rows[pair]),
                )
            )
            found = (buffer, ours, theirs)
            if (ours != theirs).any():
                break
        return found

    def _column_words(self, pair: int, name: str) -> str:
        evidence = self._evidence
        at = int(np.searchsorted(next(iter(evidence.differing.values())), pair))
        is_first = name == next(iter(evidence.differing)) and at < len(evidence.sources)
        if is_first and evidence.zero[at]:
            return "is zero"
        found = self.bytes_of(pair, name)
        words = "has another digest" if found is None else found.words()
        if is_first and evidence.sources[at] >= 0:
            source = int(evidence.left.slots[evidence.sources[at]])
            label = slot_label(source, evidence.left.page_size)
            words = f"holds what {label} of {evidence.name[0]} does"
        return words

    def _example(self, pair: int) -> Mapping[str, Any]:
        """A pair as JSON values."""
        evidence = self._evidence
        right_row = evidence.pairs.right_rows[pair]
        values: dict[str, Any] = {
            "slot": int(evidence.right.slots[right_row]),
            "left_slot": int(evidence.left.slots[evidence.pairs.left_rows[pair]]),
        }
        claims = evidence.claims.of_rows(evidence.pairs.right_rows[pair : pair + 1])[:1]
        if claims.size:
            values["request_id"] = evidence.claims.request_ids_of(claims)[0]
            values["position"] = int(evidence.claims.positions[claims[0]])
        reasons = evidence.reasons_of(pair)
        if reasons:
            values["record"] = list(reason_labels(reasons))
        names = self._columns_of(pair)
        if names:
            values |= {"column": names[0], "num_columns": len(names)}
            found = self.bytes_of(pair, names[0])
            if found is not None:
                values |= {
                    "byte": found.byte,
                    "num_bytes": found.num_bytes,
                    "left": found.left,
                    "right": found.right,
                }
        return values


def _tails_first(buffer: str) -> tuple[bool, str]:
    """Order of record columns: those of tails first, which are written after the KV."""
    return (not buffer.endswith("tail"), buffer)


def _table_words(table: TableDifference, evidence: LegEvidence) -> str:
    one, other = evidence.name[0], evidence.name[3]
    name = f"request {table.request_id}"
    if table.what == "request":
        return f"{name} is in {one if table.left else other} alone"
    where = "" if table.position is None else f" at position {table.position}"
    return f"{name} has {table.what} {table.left} in {one} and {table.right} in {other}{where}"


def _table_example(table: TableDifference) -> Mapping[str, Any]:
    values = {
        "request_id": table.request_id,
        "what": table.what,
        "position": table.position,
        "left": table.left,
        "right": table.right,
    }
    return {name: value for name, value in values.items() if value is not None}
