"""The identity family: does each slot hold the layer-0 rows of its own token and position?

V of layer 0 depends on the token alone and K on token and position, in a model whose first layer is
attention over embedded tokens. Whether it is so in this pool is read off the pool before any row is
judged: where rows of one token differ, nothing is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.audit_options import AuditOptions, Layer0
from kvaudit.core.coverage import POSITIONS_OPEN
from kvaudit.core.element_types import element_type
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.identity import (
    IdentityEvidence,
    IdentityResult,
    Unjudged,
    WrongContent,
    WrongRotation,
)
from kvaudit.core.kv_column import KvColumn
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.rope import Rope
from kvaudit.core.snapshot import DumpMoment
from kvaudit.runner.identity.claims import TokenRows, token_rows
from kvaudit.runner.identity.held_content import rotated_for, without_odd_sequences, wrong_content
from kvaudit.runner.identity.layer0_rows import LaunchDistance, Layer0Rows, why_no_numbers
from kvaudit.runner.identity.pool_table import PoolTable
from kvaudit.runner.identity.position_judge import judged_positions
from kvaudit.runner.identity.position_verdicts import PositionVerdicts
from kvaudit.runner.identity.table_fit import fitted_table
from kvaudit.runner.identity.token_election import TokenElection, elected
from kvaudit.runner.identity.token_judge import TokenVerdicts, judged_tokens, why_not_told

LAYER0_V: Final = "kv.v.0"
LAYER0_K: Final = "kv.k.0"
_FUSED: Final = "kv.kv.0"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentityPass:
    """One pool's identity family.

    Fields:
        evidence: the pool, with everything that names entries.
        options: what the user asked for.
        launcher: gives the kernel that measures, compiled; it is asked once there is a row to judge.
    """

    evidence: PoolEvidence
    options: AuditOptions
    launcher: Callable[[], LaunchDistance]

    def run(self) -> IdentityResult:
        """Judge every slot that a known token should be in.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        reason = self._why_not()
        if reason:
            return IdentityResult(not_applicable=reason)
        rows = token_rows(self.evidence)
        in_scope = self._in_scope(rows)
        if not in_scope.any():
            return IdentityResult(
                not_applicable="no tokens" if not len(rows) else "nothing in scope"
            )
        v, k = self._halves(self.launcher())
        table, election, why = self._sources(rows, v)
        if table is None and election is None:
            return IdentityResult(not_applicable=f"not applicable: {why}")
        verdicts = judged_tokens(rows, v, table=table, election=election)
        if election is not None and (reason := why_not_told(verdicts, v, election)):
            if table is None:
                return IdentityResult(not_applicable=f"not applicable: {reason}")
            verdicts.leave_to_table()
        wrong = without_odd_sequences(verdicts, wrong_content(verdicts, v, table=table))
        wrong = wrong.without(~np.isin(wrong.rows, rows.rows[in_scope]))
        positions = None
        if k is not None:
            sound = verdicts.is_judged & ~verdicts.is_wrong & (rows.positions >= 0)
            positions = judged_positions(rows.only(sound), k, rope=self._rope(), table=table)
            if positions.known is not None:
                rotated_for(wrong, k, positions.known)
        return self._result(verdicts, positions, wrong, in_scope=in_scope, table=table)

    def _why_not(self) -> str:
        """Why no row can be judged; "" where some may be."""
        snapshot, options = self.evidence.snapshot, self.options
        if options.layer0 is Layer0.OFF or options.skip_bytes:
            return "left out"
        column = snapshot.kv.get(LAYER0_V) or snapshot.kv.get(_FUSED)
        if column is None:
            return "no bytes"
        if options.layers is not None and 0 not in options.layers:
            return "nothing in scope"
        if snapshot.at is DumpMoment.MID_STEP:
            return "not applicable: dumped in mid-step"
        reason = why_no_numbers(column) or self._why_not_split(column)
        return reason and f"not applicable: {reason}"

    def _why_not_split(self, column: KvColumn) -> str:
        """Why nothing tells which part of a fused row depends on the token alone; "" else."""
        if column.name != _FUSED:
            return ""
        rope, kind = self._rope(), element_type(column.dtype)
        if rope is None or kind is None:
            return "K and V are one row, and nothing says which part of it turns"
        if column.row_bytes != rope.head_dim * kind.itemsize or rope.rotary_dim == rope.head_dim:
            return f"rows of {column.name} are no latent rows of {rope.head_dim} elements"
        return ""

    def _in_scope(self, rows: TokenRows) -> NDArray[np.bool_]:
        """Which rows are to be judged and reported, shape [n], bool."""
        scope, snapshot = self.evidence.scope, self.evidence.snapshot
        admitted = scope.admits_slots(snapshot.slots[rows.rows])
        if scope.request_ids:
            claims = self.evidence.claims
            readers = claims.of_rows(rows.rows)
            names = claims.request_ids_of(readers)
            asked = np.array([name in scope.request_ids for name in names], dtype=np.bool_)
            admitted &= np.isin(rows.rows, claims.rows[readers[asked]])
        return admitted

    def _sources(
        self, rows: TokenRows, v: Layer0Rows
    ) -> tuple[PoolTable | None, TokenElection | None, str]:
        """What the rows are judged by, and why nothing else: a table, and where it ends, the dump."""
        table, given = None, self.options.layer0
        left = np.ones(len(rows), dtype=np.bool_)
        if isinstance(given, Layer0Table):
            fitted = fitted_table(given, self.evidence.snapshot, v, rows=rows)
            if isinstance(fitted, str):
                return None, None, fitted
            table, left = fitted, fitted.entries_for(rows) < 0
        election = elected(rows.only(left), v) if left.any() else ""
        if isinstance(election, str):
            return table, None, election
        return table, election, ""

    def _halves(self, launch_distance: LaunchDistance) -> tuple[Layer0Rows, Layer0Rows | None]:
        """What depends on the token alone, and K, if it can be judged; a latent row is both."""
        columns, rope = self.evidence.snapshot.kv, self._rope()
        if LAYER0_V not in columns and rope is not None:
            fused = (columns[_FUSED],)
            every = np.arange(rope.head_dim)
            turns = (every >= rope.first_dim) & (every < rope.first_dim + rope.rotary_dim)
            v = Layer0Rows(
                columns=fused, launch_distance=launch_distance, elements=np.flatnonzero(~turns)
            )
            return v, Layer0Rows(columns=fused, launch_distance=launch_distance)
        v = Layer0Rows(columns=(columns[LAYER0_V],), launch_distance=launch_distance)
        column = columns.get(LAYER0_K)
        if column is None or why_no_numbers(column):
            return v, None
        return v, Layer0Rows(columns=(column,), launch_distance=launch_distance)

    def _rope(self) -> Rope | None:
        """The rotation of the table, else the one that the file states."""
        given = self.options.layer0
        if isinstance(given, Layer0Table) and given.rope is not None:
            return given.rope
        text = self.evidence.snapshot.metadata.get("rope")
        return None if text is None else Rope.from_json(text)

    def _result(
        self,
        verdicts: TokenVerdicts,
        positions: PositionVerdicts | None,
        wrong: WrongContent,
        *,
        in_scope: NDArray[np.bool_],
        table: PoolTable | None,
    ) -> IdentityResult:
        rows = verdicts.rows
        is_checked = verdicts.is_judged & in_scope
        rotation = _rotation(positions, rows.rows[in_scope])
        sound = np.zeros(self.evidence.snapshot.num_rows, dtype=np.bool_)
        sound[rows.rows[verdicts.is_judged & ~verdicts.is_wrong]] = True
        sound[rotation.rows] = False
        left = Counter(str(reason) for reason in verdicts.reasons[~verdicts.is_judged & in_scope])
        by_table = verdicts.by_table & in_scope
        evidence = IdentityEvidence(
            source=verdicts.source,
            columns=_judged_columns(self.evidence.snapshot.kv, positions),
            of_token=verdicts.threshold,
            of_position=None if positions is None else positions.threshold,
            sound=sound,
            content=wrong,
            rotation=rotation,
            whole_pool="" if table is None else table.whole_pool(),
        )
        checked = int(np.count_nonzero(is_checked))
        at_position = at_none = 0
        if positions is not None:
            of_scope = np.isin(positions.rows.rows, rows.rows[in_scope])
            at_position = int(np.count_nonzero(~positions.is_open & of_scope))
            at_none = int(np.count_nonzero(positions.is_open & of_scope))
        return IdentityResult(
            planned=int(np.count_nonzero(in_scope)),
            checked=checked,
            counts={
                "by_table": int(np.count_nonzero(by_table)),
                "by_repetition": checked - int(np.count_nonzero(by_table)),
                "positions_checked": at_position,
                POSITIONS_OPEN: at_none,
                **{str(reason): left[str(reason)] for reason in Unjudged},
            },
            judged_rows=rows.rows[is_checked],
            evidence=evidence,
        )


def _judged_columns(held: Mapping[str, KvColumn], positions: PositionVerdicts | None) -> list[str]:
    """The columns that rows were judged by, in order."""
    if LAYER0_V not in held:
        return [_FUSED]
    by_k = positions is not None and positions.threshold is not None
    return [LAYER0_V, LAYER0_K] if by_k else [LAYER0_V]


def _rotation(positions: PositionVerdicts | None, in_scope: NDArray[np.int64]) -> WrongRotation:
    """The rows whose K is not that of their position, of those in scope."""
    if positions is None:
        none = np.empty(0, dtype=np.int64)
        return WrongRotation(
            rows=none, claims=none, distances=np.empty(0, dtype=np.float64), positions=none
        )
    members = np.flatnonzero(positions.is_wrong & np.isin(positions.rows.rows, in_scope))
    return WrongRotation(
        rows=positions.rows.rows[members],
        claims=positions.rows.claims[members],
        distances=positions.distances[members],
        positions=positions.positions[members],
    )
