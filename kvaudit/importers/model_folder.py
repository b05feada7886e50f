"""Layer 0 of a model's folder: `config.json` and safetensors, as its makers publish them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvaudit.core.model_config import ModelConfig
from kvaudit.core.model_rope import text_config
from kvaudit.importers.json_file import read_json
from kvaudit.importers.layer0_weights import Layer0Weights
from kvaudit.importers.model_layer0 import layer0_weights
from kvaudit.importers.safetensors_model import SafetensorsModel

CONFIG_NAME: Final = "config.json"


def folder_weights(folder: Path, *, longest: int | None = None) -> Layer0Weights:
    """Read what makes the rows of layer 0.

    Args:
        folder: the model.
        longest: the longest sequence that the engine allows; None when not known.

    Raises:
        FileUnreadable: a file is missing.
        SchemaMismatch: the configuration or a file is not what it should be.
        ModelNotApplicable: layer 0 of this model is no function of token and position, or not known.
    """
    path = folder / CONFIG_NAME
    document = ModelConfig(read_json(path), path=str(path))
    return layer0_weights(
        text_config(document),
        SafetensorsModel(folder),
        path=str(folder),
        model=document.text("_name_or_path") or folder.resolve().name,
        longest=longest,
    )
