"""Pools of `layer0_worlds` in the hands of those who judge them."""

from __future__ import annotations

from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.kernels.distance.numba_cpu import launch_distance
from kvaudit.runner.expectations import expectations_of
from kvaudit.runner.identity.claims import TokenRows, token_rows
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.pool_table import PoolTable
from kvaudit.runner.identity.table_fit import fitted_table
from kvaudit.runner.identity.token_election import TokenElection, elected
from kvaudit.runner.identity.token_judge import TokenVerdicts, judged_tokens
from tests.helpers.layer0_worlds import Layer0World, V


def rows_of(world: Layer0World) -> TokenRows:
    """What each row should hold."""
    pool = world.pool()
    expected = expectations_of(pool, ALL_ENTRIES)
    return token_rows(
        PoolEvidence(snapshot=pool.snapshot, sequences=expected.sequences, sources=expected.sources)
    )


def rows_of_v(world: Layer0World) -> Layer0Rows:
    """Its V."""
    return Layer0Rows(columns=[world.pool().snapshot.kv[V]], launch_distance=launch_distance)


def judged(world: Layer0World, table: Layer0Table | None = None) -> TokenVerdicts:
    """What is known of every row's V, by a table and by the dump itself."""
    rows, v = rows_of(world), rows_of_v(world)
    fitted = None
    if table is not None:
        fitted = fitted_table(table, world.pool().snapshot, v, rows=rows)
        assert isinstance(fitted, PoolTable)
        left = fitted.entries_for(rows) < 0
    election = elected(rows if fitted is None else rows.only(left), v)
    return judged_tokens(
        rows, v, table=fitted, election=election if isinstance(election, TokenElection) else None
    )
