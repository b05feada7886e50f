"""The failed rows of a world as the rules are handed them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.backends.availability import choose
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.failed_rows import FailedRows
from kvaudit.core.observer import SilentObserver
from kvaudit.runner.bytes_pass import BytesPass
from kvaudit.runner.expectations import expectations_of
from kvaudit.runner.planned_rows import planned_rows
from kvaudit.runner.records_pass import RecordsPass
from kvaudit.runner.row_space import RowSpace
from kvaudit.runner.slot_content import SlotContent
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import World


def failing(world: World, *, tokens: bool = True) -> PoolEvidence:
    """The evidence of a world judged by its sequences on the CPU."""
    pool = world.dataset(tokens=tokens).pools[0]
    snapshot, options = pool.snapshot, AuditOptions()
    space, sources = RowSpace(snapshot), expectations_of(pool, ALL_ENTRIES).sources
    backend, _ = choose("cpu", kv_bytes=0, num_entries=0)
    shared = {
        "snapshot": snapshot,
        "space": space,
        "backend": backend,
        "observer": SilentObserver(),
        "max_rows": options.max_violations,
    }
    rows = np.flatnonzero(planned_rows(sources, space).stampable)
    found, combined = BytesPass(rows=rows, layers=None, **shared).run()
    records = RecordsPass(sources=sources, combined=combined, **shared).run()
    return replace(
        evidence_of(world, snapshot=snapshot, sequences=pool.sequences[0]),
        sources=sources,
        failed=FailedRows.joined(records.failed),
        differing=found.differences,
        content=SlotContent(snapshot, space=space, backend=backend),
    )
