"""The numbers of xxh3_64 with its default secret: the public algorithm's, as bytes and words."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

LANES: Final = 8
STRIPE_WORDS: Final = LANES
BLOCK_STRIPES: Final = 16
BLOCK_WORDS: Final = BLOCK_STRIPES * STRIPE_WORDS

_SECRET_BYTES: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def _words(content: bytes) -> NDArray[np.uint64]:
    """Little-endian words, shape [num_bytes / 8], uint64."""
    return np.frombuffer(content, dtype="<u8").astype(np.uint64)


# Stripe s of a block takes the words from s on, the scrambling those after the last stripe's first.
SECRET: Final = _words(_SECRET_BYTES)
SCRAMBLE_KEYS: Final = SECRET[BLOCK_STRIPES:]
# Eight lanes each, from places that are no multiple of a word.
LAST_STRIPE_KEYS: Final = _words(_SECRET_BYTES[121 : 121 + 64])
MERGE_KEYS: Final = _words(_SECRET_BYTES[11 : 11 + 64])
INITIAL_LANES: Final = _words(
    bytes.fromhex(
        "3daeb2c20000000087caeb85b179379e4febd4273daeb2c2f979379eb1675616"
        "63aeb2c277caeb8577caeb8500000000c56756162febd427b179379e00000000"
    )
)
PRIME_32: Final = INITIAL_LANES[7]
PRIME_64: Final = INITIAL_LANES[1]
AVALANCHE: Final = _words(bytes.fromhex("f979379e91675616"))[0]
