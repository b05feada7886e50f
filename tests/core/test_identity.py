from __future__ import annotations

import numpy as np

from kvaudit.core.identity import (
    Content,
    IdentityEvidence,
    IdentityResult,
    Threshold,
    WrongContent,
    WrongRotation,
)
from kvaudit.core.layer0_table import TableSource


def _numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _evidence() -> IdentityEvidence:
    content = WrongContent(
        rows=_numbers(2, 5),
        claims=_numbers(0, 1),
        distances=np.array([1.0, 1.1]),
        votes=_numbers(3, 3),
        against=_numbers(0, 1),
        contents=np.array([Content.ZEROS, Content.FOREIGN], dtype=object),
        tokens=_numbers(-1, 7),
        positions=_numbers(-1, -1),
        types=np.array(["", ""], dtype=object),
    )
    rotation = WrongRotation(
        rows=_numbers(3), claims=_numbers(2), distances=np.array([0.5]), positions=_numbers(9)
    )
    return IdentityEvidence(
        source=TableSource.DUMP,
        columns=("kv.v.0", "kv.k.0"),
        of_token=Threshold(distance=0.05, noise=0.0012345678, separation=0.5, pairs=12),
        of_position=None,
        sound=np.ones(8, dtype=np.bool_),
        content=content,
        rotation=rotation,
    )


def test_rows_that_something_else_explains_are_left_out_of_both_halves() -> None:
    left = _evidence().without_rows(_numbers(3, 5))
    assert left.content.rows.tolist() == [2]
    assert left.content.tokens.tolist() == [-1]
    assert len(left.rotation) == 0


def test_what_was_sound_stays_sound_when_rows_are_left_out() -> None:
    assert _evidence().without_rows(_numbers(2, 3, 5)).sound.all()


def test_a_threshold_is_evidence_of_a_few_digits() -> None:
    assert _evidence().of_token.to_dict() == {
        "threshold": 0.05,
        "noise": 0.001235,
        "separation": 0.5,
        "pairs": 12,
    }


def test_a_family_that_was_not_judged_has_counted_nothing() -> None:
    result = IdentityResult(not_applicable="no bytes")
    assert (result.planned, result.checked, len(result.judged_rows)) == (0, 0, 0)
