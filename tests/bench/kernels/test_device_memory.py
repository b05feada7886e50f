from __future__ import annotations

import numpy as np
import pytest

from kvaudit.bench.kernels import device_memory
from kvaudit.kernels.cuda_module import cuda
from tests.bench.kernels.device_lane import ON_DEVICE

pytestmark = ON_DEVICE

# Fewer words than threads, and some that the unrolled loop leaves to the other one.
LENGTHS = [0, 2, 34, 1000]


@pytest.mark.parametrize("shape", device_memory.SHAPES)
@pytest.mark.parametrize("num_words", LENGTHS)
def test_every_word_is_filled_and_none_behind(num_words: int, shape: tuple[int, int]) -> None:
    words = cuda.to_device(np.ones(1010, dtype=np.uint64))
    device_memory.launch_fill(words[:num_words], 7, shape)
    filled = words.copy_to_host()
    assert (filled[:num_words] == 7).all()
    assert (filled[num_words:] == 1).all()


@pytest.mark.parametrize("shape", device_memory.SHAPES)
@pytest.mark.parametrize("num_words", LENGTHS[1:])
def test_every_word_is_read(num_words: int, shape: tuple[int, int]) -> None:
    """A thread whose words fold to the one value that is stored tells which words it read."""
    for place in (0, num_words // 2, num_words - 1):
        words = np.zeros(num_words, dtype=np.uint64)
        words[place] = device_memory._NEVER
        sink = cuda.to_device(np.zeros(1, dtype=np.uint64))
        device_memory.launch_read(cuda.to_device(words), sink, shape)
        assert sink.copy_to_host()[0] == device_memory._NEVER


def test_what_is_read_is_not_stored() -> None:
    sink = cuda.to_device(np.zeros(1, dtype=np.uint64))
    words = cuda.to_device(np.arange(64, dtype=np.uint64))
    device_memory.launch_read(words, sink, device_memory.SHAPES[0])
    assert sink.copy_to_host()[0] == 0
