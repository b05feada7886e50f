from __future__ import annotations

import numpy as np

from kvaudit.bench.kernels.host_memory import _sum_words, fill_words, mix_words, read_words
from kvaudit.kernels.hash.reference import splitmix64

NUM_WORDS = (1 << 16) + 77


def test_every_word_is_filled() -> None:
    words = np.zeros(NUM_WORDS, dtype=np.uint64)
    fill_words(words, 7)
    assert (words == 7).all()


def test_reading_sees_every_word_and_changes_none() -> None:
    words = np.ones(NUM_WORDS, dtype=np.uint64)
    read_words(words)
    assert _sum_words(words, 0, NUM_WORDS) == NUM_WORDS
    assert _sum_words(words, 3, 5) == 2


def test_mixed_words_are_a_sequence_of_their_seed() -> None:
    words = np.zeros(NUM_WORDS, dtype=np.uint64)
    mix_words(words, 2)
    assert words[:2].tolist() == [splitmix64(3 << 32), splitmix64((3 << 32) + 1)]
    assert words[-1] == splitmix64((3 << 32) + NUM_WORDS - 1)
    assert len(np.unique(words)) == NUM_WORDS
