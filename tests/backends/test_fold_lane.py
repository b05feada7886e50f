"""Memory of a column's results; runs in the simulator's process of test_cuda.py."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends import fold_lane
from kvaudit.backends.fold_lane import FoldLane
from kvaudit.kernels.cuda_module import SIMULATED, cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]


def fill(array: object, first: int) -> None:
    array.copy_to_device(np.arange(first, first + len(array), dtype=np.uint64))


def test_results_return_in_order_as_they_are_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where digests need more than a page, which no shipment's may be split over."""
    monkeypatch.setattr(fold_lane, "_DIGESTS_PER_PAGE", 4)
    lane = FoldLane()
    for _ in range(2):
        lane.begin(9)
        fill(lane.hashes(0, 5), 100)
        fill(lane.hashes(5, 8), 105)
        for first in (0, 3, 6):
            fill(lane.digests(3), first)
        fill(lane.digests(1), 9)
        hashes, digests = lane.returned(8)
        assert hashes.tolist() == list(range(100, 108))
        assert digests.tolist() == list(range(10))


def test_a_column_without_digests_returns_none() -> None:
    lane = FoldLane()
    lane.begin(3)
    hashes, digests = lane.returned(0)
    assert (hashes.size, digests.size, digests.dtype) == (0, 0, np.uint64)


def test_memory_is_kept_from_column_to_column() -> None:
    lane = FoldLane()
    lane.begin(5)
    lane.begin(4)
    assert lane.num_bytes == 5 * 8
    lane.begin(7)
    assert lane.num_bytes == 7 * 8
