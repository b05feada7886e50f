"""Evidence for the rules: a small pool's index, built from a world."""

from __future__ import annotations

import numpy as np

from kvaudit.core.evidence import PoolEvidence
from tests.helpers.worlds import World


def evidence_of(world: World, **changes: object) -> PoolEvidence:
    """What the rules see of a world; any field may be replaced."""
    fields: dict[str, object] = {
        "key": world.key,
        "page_size": world.page_size,
        "num_slots": world.num_slots,
        "reserved_slots": world.reserved,
        "row_slots": np.arange(world.num_slots),
        "columns": dict(world.evidence),
        "sequences": world.sequences(),
    }
    return PoolEvidence(**{**fields, **changes})
