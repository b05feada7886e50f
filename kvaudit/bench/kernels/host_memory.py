"""The same of the host's memory, on all cores; and memory filled with bytes that repeat nowhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.hash.numba_cpu import splitmix64
from kvaudit.kernels.row_threads import run_rows

_WORDS_PER_TASK = 1 << 16


@compiled
def _sum_words(words, first_word, last_word):
    total = np.uint64(0)
    for word in words[first_word:last_word]:
        total += word
    return total


@compiled
def _fill_words(words, value, first_word, last_word):
    words[first_word:last_word] = value


@compiled
def _mix_words(words, seed, first_word, last_word):
    for word_idx in range(first_word, last_word):
        words[word_idx] = splitmix64(seed + np.uint64(word_idx))


def read_words(words: NDArray[np.uint64]) -> None:
    """Read all words, shape [n], uint64."""
    _on_all_cores(words, lambda first, last: _sum_words(words, first, last))


def fill_words(words: NDArray[np.uint64], value: int) -> None:
    """Write all words, shape [n], uint64."""
    _on_all_cores(words, lambda first, last: _fill_words(words, np.uint64(value), first, last))


def mix_words(words: NDArray[np.uint64], seed: int) -> None:
    """Fill words, shape [n], uint64, with what a seed of at most 31 bits gives everywhere."""
    # Words of different seeds lie 2^32 apart in one sequence that never repeats.
    start = np.uint64((seed + 1) << 32)
    _on_all_cores(words, lambda first, last: _mix_words(words, start, first, last))


def _on_all_cores(words: NDArray[np.uint64], rows_function: object) -> None:
    run_rows(rows_function, words.shape[0], rows_per_task=_WORDS_PER_TASK)  # type: ignore[arg-type] # a lambda
