"""Evidence for the rules: a small pool's index, built from a world."""

from __future__ import annotations

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.snapshot import Snapshot
from tests.helpers.worlds import World


def evidence_of(
    world: World, *, snapshot: Snapshot | None = None, **changes: object
) -> PoolEvidence:
    """What the rules see of a world, or of a snapshot of it; any field may be replaced."""
    pool = world.snapshot() if snapshot is None else snapshot
    fields: dict[str, object] = {
        "columns": {name: column.read() for name, column in pool.evidence.items()},
        "sequences": world.sequences(),
    }
    return PoolEvidence(snapshot=pool, **{**fields, **changes})
