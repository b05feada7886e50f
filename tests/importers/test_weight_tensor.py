"""Tensors, read in rows."""

from __future__ import annotations

import numpy as np

from tests.helpers.layer0_weights import tensor


def test_a_whole_tensor_is_all_of_its_rows() -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(tensor(values).whole(), values)
    np.testing.assert_array_equal(tensor(values).read(1, 2), values[1:2])
