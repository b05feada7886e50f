"""Marks of tests that run in the simulator, and elsewhere only on a device."""

from __future__ import annotations

import pytest

from kvaudit.kernels.cuda_module import SIMULATED, cuda

ON_DEVICE = (
    []
    if SIMULATED
    else [
        pytest.mark.gpu,
        pytest.mark.skipif(not cuda.is_available(), reason="no CUDA device"),
    ]
)
