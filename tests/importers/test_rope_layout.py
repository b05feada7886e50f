"""The other layout of K holds the same numbers in other places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from kvaudit.core.rope import RopeLayout
from kvaudit.importers.model_weights import model_table
from tests.helpers.gguf_files import write_gguf
from tests.helpers.layer0_weights import layer0_weights
from tests.helpers.model_families import CASES, NUM_TOKENS, save_model

OTHER = {RopeLayout.HALF: RopeLayout.INTERLEAVED, RopeLayout.INTERLEAVED: RopeLayout.HALF}


@pytest.mark.parametrize("name", ["llama-bias", "qwen3", "phi", "glm", "cohere", "olmo2"])
def test_scores_are_the_same_in_either_layout(tmp_path: Path, name: str) -> None:
    """What attention sees of K is its products: they do not depend on where a pair stands."""
    save_model(CASES[name], tmp_path, dtype=torch.float32)
    plain = model_table(str(tmp_path))
    other = model_table(str(tmp_path), layout=OTHER[plain.rope.layout])
    assert other.rope.layout is OTHER[plain.rope.layout]
    rows = np.arange(NUM_TOKENS)
    rotated = [table.rope.rotated(table.k_rows(rows), 7 * rows) for table in (plain, other)]
    assert not np.allclose(rotated[0], rotated[1], atol=0.1)
    scores = [np.einsum("ihd,jhd->hij", each, each) for each in rotated]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(plain.v0, other.v0)


def test_a_layout_and_back_is_the_makers_own(tmp_path: Path) -> None:
    save_model(CASES["qwen2"], tmp_path, dtype=torch.float32)
    plain = model_table(str(tmp_path))
    same = model_table(str(tmp_path), layout=plain.rope.layout)
    np.testing.assert_array_equal(plain.k0, same.k0)


def test_what_a_converter_permuted_is_the_interleaved_layout(tmp_path: Path) -> None:
    """Rows as they stand in the file, which is how llama.cpp keeps K."""
    import gguf

    path = write_gguf(tmp_path, "llama")
    table = model_table(str(path), layout=RopeLayout.INTERLEAVED)
    tensors = {each.name: each.data for each in gguf.GGUFReader(path).tensors}
    states = tensors["token_embd.weight"]
    states = states / np.sqrt((states**2).mean(axis=1, keepdims=True) + 1e-6)
    wanted = states * tensors["blk.0.attn_norm.weight"] @ tensors["blk.0.attn_k.weight"].T
    found = table.k_rows(np.arange(NUM_TOKENS)).reshape(NUM_TOKENS, -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_without_a_known_rotation_nothing_is_moved() -> None:
    from kvaudit.importers.rope_layout import in_layout

    weights = layer0_weights()
    assert in_layout(weights, RopeLayout.INTERLEAVED) is weights
