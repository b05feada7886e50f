from __future__ import annotations

import numpy as np

from kvaudit.constants import FailReason
from kvaudit.core.claims import claims_of
from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_evidence import LegEvidence, SlotPairs
from tests.helpers.comparing import HOST, THERE, dumped, side_of


def test_reasons_are_those_of_the_pair_that_is_asked_for() -> None:
    left, right = side_of(dumped()), side_of(dumped(THERE, key=HOST), "B")
    evidence = LegEvidence(
        name="A->B",
        kind=LegKind.TRANSFER,
        left=left.snapshot,
        right=right.snapshot,
        pairs=SlotPairs(left_rows=np.arange(3), right_rows=np.arange(3)),
        records=np.array([2]),
        reasons=np.array([int(FailReason.VERIFY_TOKEN_MISMATCH)], dtype=np.uint32),
        left_content=left.content,
        right_content=right.content,
        claims=claims_of((), right.snapshot),
    )
    assert evidence.reasons_of(2) == FailReason.VERIFY_TOKEN_MISMATCH
    assert not evidence.reasons_of(0)
    assert evidence.snapshot is right.snapshot
    assert len(evidence.pairs) == 3
