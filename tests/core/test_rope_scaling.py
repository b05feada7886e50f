"""Every way to stretch a context, against transformers' own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from kvaudit.core.model_config import ModelConfig
from kvaudit.core.model_families import FAMILIES
from kvaudit.core.model_rope import layer0_rope
from kvaudit.core.rope import plain_frequencies
from kvaudit.core.rope_scaling import BY_LENGTH, VARIANTS, Scaling
from kvaudit.errors import SchemaMismatch

HEAD_DIM = 64
THETA = 5e4
TRAINED, MOST = 1024, 8192
FACTORS = [1.0 + 0.25 * pair for pair in range(HEAD_DIM // 2)]
NUMBERS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": {"factor": 4.0},
    "longrope": {"short_factor": FACTORS, "long_factor": [2 * each for each in FACTORS]},
}
MORE: dict[str, dict[str, Any]] = {
    "yarn": {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": False, "attention_factor": 1.5},
    "longrope": {"attention_factor": 1.25, "factor": 32.0},
}


def _scaling(**numbers: Any) -> Scaling:
    return Scaling(
        plain=plain_frequencies(theta=THETA, rotary_dim=HEAD_DIM),
        theta=THETA,
        parameters=ModelConfig(numbers),
        trained=TRAINED,
        most=MOST,
        longest=None,
    )


@pytest.mark.parametrize("longest", [512, 4096, 20_000])
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("variant", NUMBERS)
def test_every_variant_is_that_of_transformers(variant: str, more: bool, longest: int) -> None:
    numbers = {**NUMBERS[variant], **(MORE.get(variant, {}) if more else {})}
    if variant in ("llama3", "yarn", "longrope"):
        numbers["original_max_position_embeddings"] = TRAINED
    config = transformers.LlamaConfig(
        hidden_size=HEAD_DIM,
        num_attention_heads=1,
        max_position_embeddings=MOST,
        rope_parameters={"rope_type": variant, "rope_theta": THETA, **numbers},
    )
    frequencies, factor = ROPE_INIT_FUNCTIONS[variant](config, device="cpu", seq_len=longest)
    old = {"rope_theta": THETA, "rope_scaling": {"type": variant, **numbers}}
    new = {"rope_parameters": {"rope_type": variant, "rope_theta": THETA, **numbers}}
    for values in (old, new):
        rope = layer0_rope(
            ModelConfig({"max_position_embeddings": MOST, **values}),
            FAMILIES["llama"],
            head_dim=HEAD_DIM,
            longest=longest,
        ).rope
        np.testing.assert_allclose(rope.inverse_frequencies, frequencies.numpy(), rtol=2e-6)
        assert rope.factor == pytest.approx(factor)


def test_without_scaling_the_frequencies_are_plain() -> None:
    frequencies, factor = VARIANTS["default"](_scaling())
    np.testing.assert_array_equal(frequencies, _scaling().plain)
    assert factor == 1


def test_an_old_name_of_longrope_is_longrope() -> None:
    found = [VARIANTS[name](_scaling(**NUMBERS["longrope"])) for name in ("su", "longrope")]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert set(BY_LENGTH) == {"dynamic", "longrope", "su"}


@pytest.mark.parametrize("variant", sorted({*NUMBERS} - {"yarn"}))
def test_a_number_of_a_variant_that_is_missing_is_an_error(variant: str) -> None:
    """But YaRN's: its factor is the length that it allows over the one it was trained for."""
    with pytest.raises(SchemaMismatch):
        VARIANTS[variant](_scaling())
