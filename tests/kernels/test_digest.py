"""xxh3_64 of whole chunks, against the library that files are written with: devices alone do it."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash

from kvaudit.kernels.digest import numbers
from tests.kernels.implementations import IMPLEMENTATIONS, WRAPS, Implementation

BLOCK_BYTES = 1024
DEVICES = [each for each in IMPLEMENTATIONS if each.id in {"simulator", "cuda"}]


def digests_of(
    implementation: Implementation, content: np.ndarray, *, chunk_bytes: int
) -> np.ndarray:
    digests = np.ones(content.size // chunk_bytes, dtype=np.uint64)
    implementation.run(
        "digest",
        content_words=content.view(np.uint64),
        digests=digests,
        block_sums=np.ones(content.size // BLOCK_BYTES * numbers.LANES, dtype=np.uint64),
        chunk_bytes=chunk_bytes,
    )
    return digests


def by_library(content: np.ndarray, *, chunk_bytes: int) -> list[int]:
    return [
        xxhash.xxh3_64_intdigest(content[first : first + chunk_bytes].tobytes())
        for first in range(0, content.size, chunk_bytes)
    ]


@WRAPS
@pytest.mark.parametrize("implementation", DEVICES)
@pytest.mark.parametrize(
    ("chunk_blocks", "num_chunks"), [(1, 1), (2, 5), (16, 1), (17, 3), (33, 1)]
)
def test_digests_of_chunks_are_the_librarys(
    implementation: Implementation, chunk_blocks: int, num_chunks: int
) -> None:
    chunk_bytes = chunk_blocks * BLOCK_BYTES
    content = np.random.default_rng(chunk_blocks).integers(
        0, 256, num_chunks * chunk_bytes, dtype=np.uint8
    )
    digests = digests_of(implementation, content, chunk_bytes=chunk_bytes)
    assert digests.tolist() == by_library(content, chunk_bytes=chunk_bytes)


@WRAPS
@pytest.mark.parametrize("implementation", DEVICES)
@pytest.mark.parametrize("value", [0x00, 0xFF])
def test_digests_of_equal_bytes_are_the_librarys(
    implementation: Implementation, value: int
) -> None:
    content = np.full(3 * BLOCK_BYTES, value, dtype=np.uint8)
    digests = digests_of(implementation, content, chunk_bytes=content.size)
    assert digests.tolist() == by_library(content, chunk_bytes=content.size)


@WRAPS
@pytest.mark.parametrize("implementation", DEVICES)
@pytest.mark.parametrize("at", [0, 1023, 1024, 2047, 3008, 3071])
def test_any_flipped_bit_gives_another_digest(implementation: Implementation, at: int) -> None:
    content = np.zeros(3 * BLOCK_BYTES, dtype=np.uint8)
    clean = digests_of(implementation, content, chunk_bytes=content.size)
    content[at] ^= 0x10
    assert digests_of(implementation, content, chunk_bytes=content.size)[0] != clean[0]


def test_the_keys_overlap_as_the_secret_does() -> None:
    """The words that two tables share, each cut from the secret at its own place."""
    secret = numbers.SECRET.tobytes()
    assert len(secret) == 192
    assert numbers.SCRAMBLE_KEYS.tobytes() == secret[128:]
    assert numbers.LAST_STRIPE_KEYS.tobytes()[7:] == secret[128:185]
    assert numbers.MERGE_KEYS.tobytes() == secret[11:75]
