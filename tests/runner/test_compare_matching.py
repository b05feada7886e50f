from __future__ import annotations

import numpy as np
import pytest

from kvaudit.runner.compare_matching import num_distinct


@pytest.mark.parametrize(("values", "count"), [([], 0), ([4], 1), ([4, 4, 5, 7, 7], 3)])
def test_values_are_counted_once_however_often_they_stand_there(
    values: list[int], count: int
) -> None:
    assert num_distinct(np.array(values, dtype=np.int64)) == count
