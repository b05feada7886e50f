"""What the numbers of a sequence may be; readers and writers ask the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import UNKNOWN_TOKEN
from kvaudit.errors import ValuesInvalid
from kvaudit.formats.ragged import list_row
from kvaudit.formats.schema import LENGTH_BOUNDS


def check_tokens(offsets: NDArray[np.int64], tokens: NDArray[np.int64], *, path: str) -> None:
    """Refuse a token that is neither one nor unknown.

    Args:
        offsets: where each sequence's tokens begin, shape [num_sequences + 1], int64.
        tokens: shape [offsets[-1]], int64.
        path: the file, for messages.

    Raises:
        ValuesInvalid: naming the first such row.
    """
    bad = np.flatnonzero(tokens < UNKNOWN_TOKEN)
    if bad.size:
        raise ValuesInvalid(
            f"{tokens[bad[0]]} is below {UNKNOWN_TOKEN}",
            path=path,
            column="tokens",
            row=list_row(offsets, int(bad[0])),
            hint=f"write {UNKNOWN_TOKEN} for an unknown token",
        )


def check_lengths(name: str, values: NDArray[np.int64], *, path: str) -> None:
    """Refuse a length outside LENGTH_BOUNDS.

    Args:
        name: `kv_len`, `start_position` or `prompt_len`.
        values: shape [num_sequences], int64.
        path: the file, for messages.

    Raises:
        ValuesInvalid: naming the first such row.
    """
    least, most = LENGTH_BOUNDS[name]
    bad = np.flatnonzero((values < least) | (values > most))
    if bad.size:
        raise ValuesInvalid(
            f"{values[bad[0]]} is not from {least} to {most}",
            path=path,
            column=name,
            row=int(bad[0]),
            hint="write a number of tokens, or leave the column out",
        )
