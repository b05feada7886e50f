"""How much of a pool's KV a dump holds: its bytes, their digests, or digests and layer 0's bytes.

From layer 0 an audit tells whether a slot holds the KV of its token, with no stamp at all; digests
of the other layers cost eight bytes each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeVar, get_args

from kvaudit.capture.arguments import check_choice
from kvaudit.core.column_names import column_layer
from kvaudit.core.kv_column import KvColumn
from kvaudit.core.snapshot import DigestGrain
from kvaudit.errors import ConfigError

Content = Literal["bytes", "digests", "digests+layer0"]
Grain = Literal["slot", "page"]

CONTENTS: Final[tuple[Content, ...]] = get_args(Content)
FIRST_LAYER: Final = 0

_Column = TypeVar("_Column", bound=KvColumn)


def check_content(content: str, digest_grain: str = DigestGrain.SLOT) -> None:
    """Refuse a content or a grain that is none, and bytes of slots with digests of pages.

    Raises:
        ConfigError: naming the argument.
    """
    check_choice("content", content, CONTENTS)
    check_choice("digest_grain", digest_grain, tuple(DigestGrain))
    if content != "digests" and digest_grain != DigestGrain.SLOT:
        raise ConfigError(
            f"digest_grain: {digest_grain!r}, but the content is {content}",
            hint="give content='digests' with it: bytes are of slots",
        )


def columns_with_bytes(columns: Mapping[str, _Column], content: Content) -> dict[str, _Column]:
    """Those of the columns whose bytes a dump of this content holds."""
    if content == "bytes":
        return dict(columns)
    if content == "digests":
        return {}
    return {name: column for name, column in columns.items() if column_layer(name) == FIRST_LAYER}
