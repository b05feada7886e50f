"""How a model rotates K, into a snapshot's metadata: an audit then tells positions from layer 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from kvaudit.core.model_rope import rope_of
from kvaudit.core.rope import Rope
from kvaudit.errors import ConfigError, ModelNotApplicable, SchemaMismatch

RopeSource: TypeAlias = Rope | Mapping[str, Any]

_KEY: Final = "rope"
# Why a model's configuration gives none: the dump is as good as ever, positions alone stay open.
_NOTE_KEY: Final = "rope_note"
_HINT: Final = "give the model's configuration as a dict, such as model.config.to_dict(), or a Rope"


def rope_metadata(rope: RopeSource | None) -> dict[str, str]:
    """Metadata of a snapshot: the rotation, or why the model's configuration gives none.

    Args:
        rope: the rotation, or a model's configuration as its `config.json` has it; None = not known.

    Raises:
        ConfigError: it is neither, or a number of the configuration is missing or none.
    """
    if rope is None:
        return {}
    if isinstance(rope, Rope):
        return {_KEY: rope.to_json()}
    if not isinstance(rope, Mapping):
        raise ConfigError(f"rope: a {type(rope).__name__}", hint=_HINT)
    try:
        found = rope_of(rope)
    except ModelNotApplicable as error:
        return {_NOTE_KEY: error.message}
    except SchemaMismatch as error:
        raise ConfigError(f"rope: {error.message}", hint=_HINT) from error
    return {_NOTE_KEY: found.note} if found.rope is None else {_KEY: found.rope.to_json()}
