from __future__ import annotations

import numpy as np
import pytest

from kvaudit.bench.kernels.load_pair import load_pair
from kvaudit.kernels.cuda_module import cuda
from tests.bench.kernels.device_lane import ON_DEVICE

pytestmark = ON_DEVICE


def _copy_swapped(words, swapped):
    for pair_idx in range(words.shape[0] // 2):
        first, second = load_pair(words, 2 * pair_idx)
        swapped[2 * pair_idx] = second
        swapped[2 * pair_idx + 1] = first


@pytest.mark.filterwarnings("ignore:.*Grid size 1 will likely")
def test_both_words_of_a_pair_are_loaded_in_their_order() -> None:
    words = cuda.to_device(np.arange(10, dtype=np.uint64))
    swapped = cuda.to_device(np.zeros(10, dtype=np.uint64))
    cuda.jit(_copy_swapped)[1, 1](words, swapped)
    assert swapped.copy_to_host().tolist() == [1, 0, 3, 2, 5, 4, 7, 6, 9, 8]
