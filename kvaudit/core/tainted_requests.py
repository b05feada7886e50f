"""Who reads a bad slot, itself or through what was computed from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.claims import Claims


def tainted_requests(claims: Claims, rows: NDArray[np.int64]) -> list[str]:
    """The requests that bad rows, shape [n], int64, taint, in input order.

    A request that holds a bad slot reads it. One that begins in the middle of a sequence, behind
    a bad slot of it, does not hold that slot, but what it shares was computed from it.
    """
    bad = claims.of_rows(rows)
    if not bad.size:
        return []
    numbers, positions = claims.sequence_numbers, claims.positions
    first_bad = np.full(int(numbers[-1]) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first_bad, numbers[bad], positions[bad])
    tainted = bad
    begins = claims.begin_midway
    while True:
        begins = begins[first_bad[numbers[begins]] > positions[begins]]
        readers = claims.of_rows(claims.rows[begins])
        readers = readers[first_bad[numbers[readers]] < positions[readers]]
        reached = begins[np.isin(claims.rows[begins], claims.rows[readers])]
        if not reached.size:
            break
        first_bad[numbers[reached]] = positions[reached]
        tainted = np.concatenate((tainted, reached))
    # One claim a sequence is enough to name it.
    _, firsts = np.unique(numbers[tainted], return_index=True)
    names = claims.request_ids_of(np.sort(tainted[firsts]))
    return list(dict.fromkeys(name for name in names if name is not None))
