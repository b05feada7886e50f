"""The mixer, its inverse and the link over whole numpy arrays: the scalar bodies as they are.

For the few words that a diagnosis looks at; hashing a pool is `launch_hash`.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from kvaudit.kernels.hash import scalar

_mix3 = scalar.make_splitmix64_mix3(scalar.splitmix64)


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """S of each word, shape [n], uint64."""
    return cast("NDArray[np.uint64]", scalar.splitmix64(words))


def unmixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The x of each word whose S(x) it is, shape [n], uint64."""
    return cast("NDArray[np.uint64]", scalar.inverse_splitmix64(words))


def linked(
    prev_hashes: NDArray[np.uint64], *, tokens: NDArray[np.uint64], positions: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """What the successor of each record stores, shape [n], uint64."""
    return cast("NDArray[np.uint64]", _mix3(prev_hashes, tokens, positions))


def unlinked(
    hashes: NDArray[np.uint64], *, tokens: NDArray[np.uint64], positions: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """The prev_hash of a record with this token and position whose slot hash is each hash; [n]."""
    return unmixed(unmixed(unmixed(hashes) ^ positions) ^ tokens)


def bits_set(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many bits of each word are set, shape [n], int64."""
    octets = np.ascontiguousarray(words).view(np.uint8).reshape(-1, words.itemsize)
    counts: NDArray[np.int64] = np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.int64)
    return counts
