"""The pairing key of a file: metadata <-> `PoolKey`, and the file name that shows it."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Final

from kvaudit.core.snapshot import PoolKey
from kvaudit.formats.schema import FILE_SUFFIX, FileKind

KEY_PARTS: Final = tuple(part.name for part in fields(PoolKey))
_NOT_IN_A_NAME: Final = re.compile(r"[^\w.-]")


def key_metadata(key: PoolKey) -> dict[str, str]:
    """The metadata of a pairing key, without the prefix of ours.

    Parts at their default are left out, the pool kind is not.
    """
    metadata = {
        part: str(getattr(key, part)) for part in KEY_PARTS if getattr(key, part) is not None
    }
    if key.pool == key.pool_kind:
        del metadata["pool"]
    return metadata


def file_stem(key: PoolKey) -> str:
    """The conventional start of a file's name, such as `decode-0.target.full.r3`.

    Letters, digits, `_`, `-` and inner dots alone, so that it names a file of the folder it is put
    into, and never a hidden one. The step names the folder: `step-000120/`.
    """
    word = _NOT_IN_A_NAME.sub("_", key.label()).strip(".").lower()
    return word or "_"


def file_name(key: PoolKey, kind: FileKind) -> str:
    """The conventional name of a file, such as `decode-0.target.full.r3.snapshot.arrow`."""
    return f"{file_stem(key)}.{kind}{FILE_SUFFIX}"
