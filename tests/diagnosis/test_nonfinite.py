"""NaN and infinities by element type."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.diagnosis.nonfinite import knows, nonfinite_elements


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_they_are_numpys(dtype: str) -> None:
    values = np.array([[0.0, -1.5, np.inf, -np.inf, np.nan, np.finfo(dtype).max]], dtype=dtype)
    found = nonfinite_elements(values.view(np.uint8), f"torch.{dtype}")
    assert found.tolist() == (~np.isfinite(values)).tolist()


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float32", "float64", "float8_e5m2", "float8_e4m3fn"]
)
def test_they_are_torchs(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    data = np.random.default_rng(7).integers(0, 256, (64, 64), dtype=np.uint8)
    data[:, 3::4] |= 0x7F
    values = torch.from_numpy(data).view(getattr(torch, dtype)).to(torch.float64)
    assert np.array_equal(nonfinite_elements(data, dtype), ~torch.isfinite(values).numpy())


def test_a_rest_that_is_no_element_is_left_out() -> None:
    assert nonfinite_elements(np.full((2, 5), 0xFF, np.uint8), "bfloat16").shape == (2, 2)


@pytest.mark.parametrize("dtype", ["", "int8", "uint8", "float4_e2m1fn_x2"])
def test_types_without_such_values_are_not_known(dtype: str) -> None:
    assert not knows(dtype)
