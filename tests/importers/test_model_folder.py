"""A model's folder; `test_model_weights.py` holds such folders against the real classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from kvaudit.errors import FileUnreadable
from kvaudit.importers.model_folder import CONFIG_NAME, folder_weights
from tests.helpers.model_families import CASES, save_model


def test_the_text_part_of_a_larger_model_is_what_counts(tmp_path: Path) -> None:
    save_model(CASES["qwen2"], tmp_path, dtype=torch.float32)
    config = json.loads((tmp_path / CONFIG_NAME).read_text())
    whole = {"model_type": "llava", "text_config": config, "_name_or_path": "makers/model"}
    (tmp_path / CONFIG_NAME).write_text(json.dumps(whole))
    found = folder_weights(tmp_path)
    assert (found.model, found.num_heads, found.head_dim) == ("makers/model", 2, 16)
    assert found.k.bias is not None


def test_a_model_without_a_name_has_that_of_its_folder(tmp_path: Path) -> None:
    save_model(CASES["qwen2"], tmp_path / "toy-1b", dtype=torch.float32)
    assert folder_weights(tmp_path / "toy-1b").model == "toy-1b"


@pytest.mark.parametrize("name", [CONFIG_NAME, "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_refused(tmp_path: Path, name: str) -> None:
    save_model(CASES["qwen2"], tmp_path, dtype=torch.float32)
    (tmp_path / name).unlink()
    with pytest.raises(FileUnreadable):
        folder_weights(tmp_path)
