"""Tables of models against what a forward pass of the real classes leaves in layer 0."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from kvaudit.core.layer0_table import TableSource
from kvaudit.core.rope import relative_distances
from kvaudit.errors import ConfigError, FileUnreadable, ModelNotApplicable
from kvaudit.importers.model_weights import model_table
from tests.helpers.model_families import CASES, NUM_TOKENS, layer0_cache, save_model

# Float32 sums differ by their order alone; angles by the float32 in which the model computes them.
FLOAT32_NOISE = {"v": 1e-6, "k": 1e-5}
# In bfloat16 V is rounded once, at the end, and K thrice more by its rotation.
BFLOAT16_NOISE = {"v": 1e-3, "k": 1e-2}


@pytest.mark.parametrize(
    ("dtype", "noise"),
    [(torch.float32, FLOAT32_NOISE), (torch.bfloat16, BFLOAT16_NOISE)],
    ids=["float32", "bfloat16"],
)
@pytest.mark.parametrize("name", CASES)
def test_a_table_holds_what_a_forward_pass_leaves_in_layer_0(
    tmp_path: Path, name: str, dtype: torch.dtype, noise: dict[str, float]
) -> None:
    save_model(CASES[name], tmp_path, dtype=dtype)
    cache = layer0_cache(CASES[name], tmp_path, dtype=dtype)
    table = model_table(str(tmp_path), longest=NUM_TOKENS)
    assert (table.dtype, table.source) == (str(dtype).removeprefix("torch."), TableSource.MODEL)
    rows, positions = table.rows_of(cache.tokens), np.arange(NUM_TOKENS)
    v = table.v_rows(rows)
    assert relative_distances(cache.v, v).max() < noise["v"]
    assert relative_distances(cache.v, np.roll(v, 1, axis=0)).min() > 0.4
    expected = table.rope.rotated(table.k_rows(rows), positions)
    assert relative_distances(cache.k, expected).max() < noise["k"]
    if table.rope.inverse_frequencies.any():
        found = table.rope.positions_of(table.k_rows(rows), cache.k, num_positions=NUM_TOKENS)
        np.testing.assert_array_equal(found.positions, positions)


def test_shards_are_read_as_one_model(tmp_path: Path) -> None:
    save_model(CASES["qwen2"], tmp_path / "one", dtype=torch.bfloat16)
    save_model(CASES["qwen2"], tmp_path / "many", dtype=torch.bfloat16, max_shard_size="20KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    one, many = (model_table(str(tmp_path / name)) for name in ("one", "many"))
    np.testing.assert_array_equal(many.k0, one.k0)
    np.testing.assert_array_equal(many.v0, one.v0)


def test_an_engine_may_compute_in_another_type_than_the_weights_have(tmp_path: Path) -> None:
    save_model(CASES["qwen2"], tmp_path, dtype=torch.float32)
    cache = layer0_cache(CASES["qwen2"], tmp_path, dtype=torch.bfloat16)
    table = model_table(str(tmp_path), dtype="bfloat16")
    assert table.dtype == "bfloat16"
    v = table.v_rows(table.rows_of(cache.tokens))
    assert relative_distances(cache.v, v).max() < BFLOAT16_NOISE["v"]


@pytest.mark.parametrize("name", ["dynamic", "phi3-longrope"])
def test_a_rotation_that_the_engine_settles_is_not_guessed(tmp_path: Path, name: str) -> None:
    save_model(CASES[name], tmp_path, dtype=torch.float32)
    table = model_table(str(tmp_path))
    assert table.rope is None
    assert "--max-length" in table.note
    assert table.k0 is not None


def test_a_type_that_no_table_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        model_table(str(tmp_path), dtype="int8")


@pytest.mark.parametrize("name", ["none", "model.bin"])
def test_what_is_no_model_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.bin").write_bytes(b"weights")
    with pytest.raises(FileUnreadable) as caught:
        model_table(str(tmp_path / name))
    assert caught.value.hint


@pytest.mark.parametrize("block", [None, [16, 16]], ids=["a tensor", "a block"])
def test_weights_of_one_byte_count_with_their_scales(
    tmp_path: Path, block: list[int] | None
) -> None:
    save_model(CASES["qwen2"], tmp_path, dtype=torch.bfloat16)
    plain = model_table(str(tmp_path))
    weights = load_file(tmp_path / "model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": block}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for half in ("k", "v"):
        name = f"model.layers.0.self_attn.{half}_proj.weight"
        weight = weights[name].float()
        shape = (2, 4) if block else (1, 1)
        scale = torch.rand(shape) + 0.01
        divided = weight / torch.kron(scale, torch.ones(32 // shape[0], 64 // shape[1]))
        weights |= {name: divided.to(torch.float8_e4m3fn), f"{name}_scale_inv": scale}
    save_file(weights, tmp_path / "model.safetensors")
    table = model_table(str(tmp_path))
    assert table.dtype == "bfloat16"
    rows = np.arange(NUM_TOKENS)
    for found, wanted in (
        (table.v_rows(rows), plain.v_rows(rows)),
        (table.k_rows(rows), plain.k_rows(rows)),
    ):
        distances = relative_distances(found, wanted)
        assert 0.001 < distances.max() < 0.1
    save_file(
        {name: each for name, each in weights.items() if "scale" not in name},
        tmp_path / "model.safetensors",
    )
    with pytest.raises(ModelNotApplicable, match="scale is not known"):
        model_table(str(tmp_path))
