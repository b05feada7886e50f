"""A table of layer-0 rows from a model's weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.observer import RunObserver, SilentObserver
from kvaudit.core.rope import RopeLayout
from kvaudit.errors import ConfigError, FileUnreadable
from kvaudit.formats.given_path import refuse_empty
from kvaudit.importers.gguf_model import gguf_weights
from kvaudit.importers.layer0_rows import table_of_weights
from kvaudit.importers.model_folder import folder_weights
from kvaudit.importers.rope_layout import in_layout

TABLE_TYPES: Final = ("float32", "float16", "bfloat16")
_GGUF: Final = ".gguf"


def model_table(
    path: str,
    *,
    dtype: str | None = None,
    longest: int | None = None,
    layout: RopeLayout | None = None,
    observer: RunObserver | None = None,
) -> Layer0Table:
    """The layer-0 rows of every token of a model: from its weights, without a forward pass.

    Args:
        path: the model's folder with `config.json` and safetensors, a `.gguf` file, or one of its
            shards.
        dtype: the element type that the engine computes in; None = that of the weights.
        longest: the longest sequence that the engine allows, in tokens, by which some rotations
            scale; None when not known.
        layout: which elements of a head the engine turns together; None = those of the makers.
        observer: is told the progress.

    Raises:
        ConfigError: dtype is none of TABLE_TYPES.
        BackendNotInstalled: a .gguf file is read by a package that is not installed.
        FileUnreadable, LimitExceeded, SchemaMismatch: a file is missing, or is not what it should be.
        ModelNotApplicable: layer 0 of this model is no function of token and position, or not known.
    """
    if dtype is not None and dtype not in TABLE_TYPES:
        raise ConfigError(f"{dtype!r} is no type of a table", hint=f"take {', '.join(TABLE_TYPES)}")
    refuse_empty(path)
    place = Path(path)
    if place.suffix == _GGUF:
        weights = gguf_weights(place, longest=longest)
    elif place.is_dir():
        weights = folder_weights(place, longest=longest)
    else:
        raise FileUnreadable(
            "it is neither a folder nor a .gguf file",
            path=path,
            hint="give the folder with the model's config.json, or a .gguf file",
        )
    if dtype is not None:
        weights = replace(weights, dtype=dtype)
    if layout is not None:
        weights = in_layout(weights, layout)
    return table_of_weights(weights, observer=observer or SilentObserver())
