"""What of one slot cannot be compared, and why: a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kvaudit.constants import NO_STEP, RealKvHashMode
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.identity import IdentityResult
from kvaudit.core.slot_facts import ColumnDigests, SlotRecord
from kvaudit.core.slot_readers import SlotClaim
from kvaudit.core.snapshot import DigestGrain, DumpMoment

# Columns that a sentence lists.
_MAX_NAMED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotLimits:
    """How far what is known of a slot goes.

    Fields:
        pool: the pool.
        slot: the slot.
        claims: the claims on it.
        records: its records.
        columns: its KV columns.
        identity: what an audit of the pool made of its layer 0.
    """

    pool: AuditedPool
    slot: int
    claims: Sequence[SlotClaim]
    records: Sequence[SlotRecord]
    columns: Sequence[ColumnDigests]
    identity: IdentityResult

    def sentences(self, *, searched: Sequence[str], skip_bytes: bool) -> list[str]:
        """All that must be known of the facts beside it.

        Args:
            searched: KV columns whose content was searched for in every slot.
            skip_bytes: whether the findings are those of an audit without bytes.
        """
        found = [
            *self._of_claims(),
            *self._of_records(),
            *self._of_columns(),
            *self._of_layer0(),
            *self._of_moment(),
        ]
        held = [column for column in self.columns if column.held is not None]
        if len(searched) < len(held):
            found.append(
                f"content was searched for in {len(searched)} of {len(held)} columns, and in the "
                "stamps of all: to search the others takes a fold of each of them"
            )
        if skip_bytes:
            found.append("the findings are without the pool's bytes, which were left out")
        return found

    def _of_claims(self) -> Iterator[str]:
        if self.slot in self.pool.snapshot.reserved_slots:
            yield "the slot is reserved: it holds no sequence, and garbage by right"
        elif not self.pool.sequences and not self.pool.plans:
            yield (
                "no expectations: records are judged by the chains that they form, so nothing says "
                "which token should be here"
            )
        elif not self.claims:
            yield "no expectation names the slot: what a freed slot holds is not judged"
        elif all(claim.not_judged for claim in self.claims):
            yield "none of the claims on the slot is judged: it may hold anything"

    def _of_records(self) -> Iterator[str]:
        if not self.records:
            yield "no canary: nothing says which token was written here"
        empty = [record.buffer for record in self.records if record.is_zero]
        if empty:
            yield f"no record in {', '.join(empty)}: nothing was stamped there, or it is lost"

    def _of_columns(self) -> Iterator[str]:
        if not self.columns:
            yield "no KV column: neither bytes nor digests were dumped"
            return
        unstamped = [column for column in self.columns if column.written is None]
        combined = self._combined_columns()
        unstamped = [column for column in unstamped if column.name not in combined]
        if len(unstamped) == len(self.columns):
            yield "no column is stamped: nothing says whether the slot's KV changed"
        elif unstamped:
            yield f"{len(unstamped)} of {len(self.columns)} columns are not stamped"
        lacking = self._lacking_sources()
        if lacking:
            yield f"a combined hash cannot be recomputed: the file lacks {', '.join(lacking)}"
        if any(column.solved is not None for column in self.columns):
            yield "a combined hash is wrong, and does not say which of its columns changed"
        absent = sum(column.held is None for column in self.columns)
        if absent:
            yield f"{absent} stamped columns have neither bytes nor digests in the file"
        digests = sum(c.recomputed is None and c.dumped is not None for c in self.columns)
        if digests:
            which = "the dump has" if digests == len(self.columns) else f"{digests} columns have"
            yield f"{which} digests alone: there are no bytes to look at"
        if self.pool.snapshot.digest_grain is DigestGrain.PAGE:
            page = self.slot // self.pool.snapshot.page_size
            yield f"digests are of pages: what differs is somewhere in page {page}"

    def _of_layer0(self) -> Iterator[str]:
        """Said where layer 0 tells of other slots of the pool: of this one it could tell as well."""
        row = self.pool.snapshot.rows_of(np.array([self.slot], dtype=np.int64))
        is_open = self.identity.checked and not np.isin(row, self.identity.judged_rows).any()
        if is_open and any(not claim.not_judged for claim in self.claims):
            yield (
                "layer 0 does not tell whether this is its token's KV: neither the other slots of "
                "the token do, nor a table"
            )

    def _lacking_sources(self) -> list[str]:
        """The columns that a combined hash covers and the file has not what it needs of."""
        snapshot = self.pool.snapshot
        if snapshot.real_kv_hash_mode is RealKvHashMode.NONE or not self.records:
            return []
        held = {column.name for column in self.columns if column.held is not None}
        if snapshot.real_kv_hash_mode is RealKvHashMode.PARTIAL:
            held.intersection_update(snapshot.kv)
        return [name for name in snapshot.stamped_columns if name not in held][:_MAX_NAMED]

    def _combined_columns(self) -> set[str]:
        """The columns that a record's combined hash speaks of together."""
        snapshot = self.pool.snapshot
        known = any(record.expected_real_kv_hash for record in self.records)
        if snapshot.real_kv_hash_mode is RealKvHashMode.NONE or not known:
            return set()
        return set(snapshot.stamped_columns)

    def _of_moment(self) -> Iterator[str]:
        snapshot = self.pool.snapshot
        if snapshot.at is DumpMoment.MID_STEP:
            yield "dumped in mid-step: bytes that differ are no violation"
        stamped_step = snapshot.evidence.get("stamped_step")
        row = snapshot.rows_of(np.array([self.slot], dtype=np.int64))
        if stamped_step is not None and int(stamped_step.read()[row[0]]) == NO_STEP:
            yield "the slot was never stamped: no launch judges it"
        if snapshot.real_kv_hash_mode is RealKvHashMode.PARTIAL:
            yield "real_kv_hash covers the first 16 bytes of each of its columns alone"
