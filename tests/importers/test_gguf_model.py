"""Tables of GGUF files: what a converter does is undone, and SmolLM2 is the one that transformers runs."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from examples.capture_smollm2 import GGUF_FILE, weights_folder
from kvaudit.core.rope import relative_distances
from kvaudit.errors import ModelNotApplicable
from kvaudit.importers.model_weights import model_table
from tests.helpers.gguf_files import GGUF_CASES, write_gguf
from tests.helpers.model_families import CASES, NUM_TOKENS, Layer0Cache, layer0_cache
from tests.helpers.smollm2 import smollm2

NUM_POSITIONS = 8192


def _distances(table, cache: Layer0Cache) -> tuple[float, float]:
    """The largest distance of any row of V, and of K."""
    rows = table.rows_of(cache.tokens)
    expected = table.rope.rotated(table.k_rows(rows), np.arange(len(rows)))
    return (
        float(relative_distances(cache.v, table.v_rows(rows)).max()),
        float(relative_distances(cache.k, expected).max()),
    )


@pytest.mark.parametrize("architecture", GGUF_CASES)
def test_a_converted_model_has_the_rows_of_its_makers_model(tmp_path: Path, architecture: str):
    path = write_gguf(tmp_path, architecture)
    case = CASES[GGUF_CASES[architecture]]
    cache = layer0_cache(case, tmp_path / "makers", dtype=torch.float32)
    table = model_table(str(path))
    assert (table.model, table.dtype, table.num_tokens) == ("toy", "float32", NUM_TOKENS)
    v, k = _distances(table, cache)
    assert (v < 1e-6, k < 1e-5) == (True, True)


@pytest.mark.parametrize("stored", ["Q8_0", "Q4_1"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_a_quantised_model_has_the_rows_that_transformers_computes_of_it(
    tmp_path: Path, architecture: str, stored: str
):
    path = write_gguf(tmp_path, architecture, stored=stored)
    case = CASES[GGUF_CASES[architecture]]
    cache = layer0_cache(case, tmp_path, dtype=torch.float32, gguf_file=path.name)
    v, k = _distances(model_table(str(path)), cache)
    assert (v < 1e-6, k < 1e-5) == (True, True)


@pytest.mark.parametrize(("stored", "dtype"), [("F16", "float16"), ("BF16", "bfloat16")])
def test_a_plain_model_computes_in_the_type_that_it_is_stored_in(
    tmp_path: Path, stored: str, dtype: str
):
    path = write_gguf(tmp_path, "qwen2", stored=stored)
    table = model_table(str(path))
    cache = layer0_cache(CASES["qwen2"], tmp_path / "makers", dtype=getattr(torch, dtype))
    v, k = _distances(table, cache)
    assert table.dtype == dtype
    assert (v < 1e-3, k < 1e-2) == (True, True)


def test_factors_beside_the_weights_slow_the_rotation(tmp_path: Path):
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    path = write_gguf(tmp_path, "llama", extra={"rope_freqs.weight": factors})
    scaled = model_table(str(path)).rope.inverse_frequencies
    plain = model_table(str(tmp_path / "makers")).rope.inverse_frequencies
    np.testing.assert_allclose(scaled, plain / factors, rtol=1e-6)


def test_a_rotation_that_the_file_does_not_settle_is_not_guessed(tmp_path: Path):
    factors = np.ones(8, dtype=np.float32)
    path = write_gguf(tmp_path, "llama", extra={"rope_factors_long.weight": factors})
    table = model_table(str(path))
    assert table.rope is None
    assert "safetensors" in table.note


def test_an_architecture_that_is_not_known_is_refused(tmp_path: Path):
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "gpt2")
    writer.add_tensor("token_embd.weight", np.zeros((2, 2), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelNotApplicable, match="learned absolute positions"):
        model_table(str(tmp_path / "a.gguf"))


@pytest.fixture(scope="module")
def smollm2_table():
    return model_table(str(Path(weights_folder()) / GGUF_FILE))


def _smollm2_in(dtype: str):
    """The model of the other tests, or another one in float32."""
    if dtype == "bfloat16":
        return smollm2()
    return AutoModelForCausalLM.from_pretrained(
        weights_folder(), gguf_file=GGUF_FILE, dtype=getattr(torch, dtype)
    )


class _LayerDoneError(Exception):
    """The first layer has written its K and V."""


def _until_layer_0(model, tokens: np.ndarray) -> Layer0Cache:
    """A forward pass that ends behind the attention of layer 0."""

    def stop(*_: object) -> None:
        raise _LayerDoneError

    cache = DynamicCache()
    hook = model.model.layers[0].self_attn.register_forward_hook(stop)
    try:
        with torch.no_grad(), pytest.raises(_LayerDoneError):
            model.model(torch.from_numpy(tokens)[None], cache=cache)
    finally:
        hook.remove()
    k, v = (
        half[0].transpose(0, 1).float().numpy()
        for half in (cache.layers[0].keys, cache.layers[0].values)
    )
    return Layer0Cache(tokens=tokens, k=k, v=v)


@pytest.mark.parametrize(
    ("dtype", "noise"), [("float32", (1e-6, 2e-4)), ("bfloat16", (1e-2, 1e-2))], ids=str
)
def test_smollm2_of_its_wheel_is_the_model_that_transformers_runs(smollm2_table, dtype, noise):
    """At every position to 8191: V by the token, K by the position, and the position by K."""
    tokens = np.random.default_rng(5).integers(0, smollm2_table.num_tokens, NUM_POSITIONS)
    cache = _until_layer_0(_smollm2_in(dtype), tokens)
    found = _distances(smollm2_table, cache)
    assert (found[0] < noise[0], found[1] < noise[1]) == (True, True)
    rows = smollm2_table.rows_of(tokens)
    recovered = smollm2_table.rope.positions_of(
        smollm2_table.k_rows(rows), cache.k, num_positions=NUM_POSITIONS
    )
    np.testing.assert_array_equal(recovered.positions, np.arange(NUM_POSITIONS))
    others = np.roll(smollm2_table.v_rows(rows), 1, axis=0)
    is_other = tokens != np.roll(tokens, 1)
    assert relative_distances(cache.v, others)[is_other].min() > 0.35
