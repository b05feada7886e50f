"""The names of columns: what they tell, and what they are called in the file.

A KV column is `kv.<half>.<layer>` or `kv.side.<name>`, a record column `<k|v>.<head|tail>`.
"""

from __future__ import annotations

from kvaudit.core.launch_tag import KvHalf


def column_half(column_name: str) -> KvHalf:
    """The half whose record a KV column belongs to; a fused `kv.kv.3` counts as K."""
    return KvHalf.V if column_name.split(".")[1] == "v" else KvHalf.K


def column_layer(column_name: str) -> int | None:
    """The layer of `kv.k.17`; None for a side buffer."""
    parts = column_name.split(".")
    return None if parts[1] == "side" else int(parts[2])


def column_order(column_name: str) -> tuple[float, str]:
    """Layer order of KV columns: layer 0's first, side buffers last."""
    layer = column_layer(column_name)
    return (float("inf") if layer is None else layer, column_name)


def stamped_name(column_name: str) -> str:
    """The name of a KV column's stamps in the file: `stamped.k.0` for `kv.k.0`."""
    return f"stamped.{column_name.removeprefix('kv.')}"


def digest_name(column_name: str) -> str:
    """The name of a KV column's digests in the file: `digest.k.0` for `kv.k.0`."""
    return f"digest.{column_name.removeprefix('kv.')}"


def canary_name(buffer: str) -> str:
    """The name of a record column in the file: `canary.k.tail` for `k.tail`."""
    return f"canary.{buffer}"


def tail_of(half: KvHalf) -> str:
    """The record column that a half's combined hash is in: `k.tail`."""
    return f"{half.lower()}.tail"
