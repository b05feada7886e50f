"""Windows on their way to the device; runs in the simulator's process of test_cuda.py."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends.cuda_staging import Staging
from kvaudit.kernels.cuda_module import SIMULATED, cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]


def test_an_upload_arrives_and_the_next_ones_leave_it_alone_until_its_turn() -> None:
    staging = Staging(num_bytes=64, num_rows=8)
    random = np.random.default_rng(0)
    for turn in range(5):
        data = random.integers(0, 256, (3 + turn, 8), dtype=np.uint8)
        slots = np.arange(2 + turn)
        device_data, device_slots = staging.upload(data, slots)
        staging.release()
        staging.stream.synchronize()
        np.testing.assert_array_equal(device_data.copy_to_host(), data)
        np.testing.assert_array_equal(device_slots.copy_to_host(), slots)


def test_a_strided_read_only_window_is_uploaded_as_dense_rows() -> None:
    wide = np.arange(96, dtype=np.uint8).reshape(4, 24)
    wide.flags.writeable = False
    staging = Staging(num_bytes=64, num_rows=8)
    device_data, _ = staging.upload(wide[:, :16], np.arange(4))
    staging.stream.synchronize()
    np.testing.assert_array_equal(device_data.copy_to_host(), wide[:, :16])
