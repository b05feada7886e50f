"""The pairing key of a file: metadata <-> `PoolKey`, and the file name that shows it."""

from __future__ import annotations

from kvaudit.core.snapshot import PoolKey
from kvaudit.formats.schema import FILE_SUFFIX, KEY_PREFIX, FileKind

_TEXT_PARTS = ("instance", "group", "pool", "tier")
_NUMBER_PARTS = ("rank", "step")
KEY_PARTS = ("instance", "group", "pool", "pool_kind", "tier", "rank", "step")


def key_metadata(key: PoolKey) -> dict[str, str]:
    """The metadata of a pairing key; parts at their default are left out, the pool kind is not."""
    metadata = {KEY_PREFIX + "pool_kind": str(key.pool_kind)}
    for part in (*_TEXT_PARTS, *_NUMBER_PARTS):
        value = getattr(key, part)
        if value is not None and not (part == "pool" and value == key.pool_kind):
            metadata[KEY_PREFIX + part] = str(value)
    return metadata


def file_name(key: PoolKey, kind: FileKind) -> str:
    """The conventional name of a file, such as `decode-0.target.full.r3.snapshot.arrow`.

    The step names the folder: `step-000120/`.
    """
    parts = [key.instance, key.group, key.pool, key.tier]
    words = [part.replace("/", "_").lower() for part in parts if part]
    if key.rank is not None:
        words.append(f"r{key.rank}")
    return ".".join([*words, str(kind)]) + FILE_SUFFIX
