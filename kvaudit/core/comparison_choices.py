"""How dumps are called and matched, and what of them is compared: words alone, as a help needs."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# What the dumps of a comparison are called, in the order in which they are given.
LETTERS: Final = "ABC"


class MatchBy(StrEnum):
    """What makes two slots of different dumps the same."""

    AUTO = "auto"
    """By content; what that leaves of requests that both name, by request and position."""
    CONTENT = "content"
    """The same token after the same ones, under the same extra key."""
    REQUEST = "request"
    """The same request and position."""
    SLOT = "slot"
    """The same number."""


class ComparedContent(StrEnum):
    """What of the KV is compared."""

    BOTH = "both"
    """Bytes where a file has them, and digests where it does not."""
    DIGESTS = "digests"
    """Dumped digests alone: no byte is read."""
    BYTES = "bytes"
    """Bytes alone."""
