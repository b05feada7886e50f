"""A small JSON file of a model's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from kvaudit.core.model_config import MODEL_HINT
from kvaudit.errors import FileUnreadable, LimitExceeded, SchemaMismatch

MAX_JSON_BYTES: Final = 1 << 24


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON file that holds an object.

    Raises:
        FileUnreadable: it cannot be read.
        LimitExceeded: it is too large.
        SchemaMismatch: it holds no JSON object.
    """
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise LimitExceeded(
                f"{size} bytes; at most {MAX_JSON_BYTES} are read", path=str(path), hint=MODEL_HINT
            )
        text = path.read_bytes()
    except OSError as error:
        raise FileUnreadable(
            (error.strerror or str(error)).lower(), path=str(path), hint=MODEL_HINT
        ) from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise SchemaMismatch("holds no JSON object", path=str(path), hint=MODEL_HINT)
    return document
