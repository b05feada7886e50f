from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, types

from kvaudit.kernels.async_copy import (
    commit_copies,
    copy_async,
    copy_pair_async,
    load_pair,
    wait_for_older_copies,
)
from kvaudit.kernels.cuda_module import SIMULATED

pytestmark = (
    []
    if SIMULATED
    else [pytest.mark.gpu, pytest.mark.skipif(not cuda.is_available(), reason="no CUDA device")]
)


def copy_backwards(source_words, copied, pairs):
    """Each thread copies what the last but its own index holds, through shared memory."""
    shared = cuda.shared.array(16, types.uint64)
    own = 2 * cuda.threadIdx.x
    other = source_words.shape[1] - 2 - own
    if pairs:
        copy_pair_async(shared, own, source_words, other)
    else:
        copy_async(shared, own, source_words, other)
        copy_async(shared, own + 1, source_words, other + 1)
    commit_copies()
    # The youngest group may still be on its way: this one makes the first the older.
    commit_copies()
    wait_for_older_copies()
    copied[own], copied[own + 1] = load_pair(shared, own)


@pytest.mark.parametrize("pairs", [True, False])
def test_copies_bring_the_words_at_their_index(pairs):
    source = np.arange(1, 17, dtype=np.uint64).reshape(1, 16)
    copied = np.zeros(16, dtype=np.uint64)
    on_device = cuda.to_device(source), cuda.to_device(copied)
    cuda.jit(copy_backwards)[1, 8](*on_device, pairs)
    copied = on_device[1].copy_to_host()
    assert copied.reshape(8, 2).tolist() == source.reshape(8, 2)[::-1].tolist()
