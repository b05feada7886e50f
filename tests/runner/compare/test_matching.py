from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.comparison_choices import MatchBy
from kvaudit.runner.compare.matching import PairParts, num_distinct


def test_pairs_are_of_no_doubtful_content_unless_it_is_said() -> None:
    parts, rows = PairParts(), np.arange(2)
    parts.add(MatchBy.SLOT, rows, rows)
    parts.add(MatchBy.CONTENT, rows, rows, ambiguous=np.array([True, False]))
    assert [part.tolist() for part in parts.ambiguous] == [[False, False], [True, False]]
    assert parts.by == [MatchBy.SLOT, MatchBy.CONTENT]


@pytest.mark.parametrize(("values", "count"), [([], 0), ([4], 1), ([4, 4, 5, 7, 7], 3)])
def test_values_are_counted_once_however_often_they_stand_there(
    values: list[int], count: int
) -> None:
    assert num_distinct(np.array(values, dtype=np.int64)) == count
