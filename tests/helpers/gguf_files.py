"""A model of `model_families` as a GGUF file: what a converter does to its tensors, done here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from tests.helpers.model_families import CASES, ModelCase, save_model

# Architecture in the file, and the case whose weights it holds.
GGUF_CASES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma2": "gemma2",
}
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NORMS = {
    "gemma2": {
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    }
}
_PLAIN_NORMS = {"post_attention_layernorm": "ffn_norm"}


def write_gguf(
    folder: Path,
    architecture: str,
    *,
    stored: str = "F32",
    extra: dict[str, np.ndarray] | None = None,
) -> Path:
    """Save a model with random weights as a GGUF file.

    Args:
        folder: where `model.gguf` goes.
        architecture: one of GGUF_CASES.
        stored: the type of the matrices: F32, F16, BF16, or a quantised one.
        extra: further tensors by name.
    """
    import transformers

    case: ModelCase = CASES[GGUF_CASES[architecture]]
    save_model(case, folder / "makers", dtype=torch.float32)
    config = transformers.AutoConfig.from_pretrained(folder / "makers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "makers")
    path = folder / "model.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    _add_metadata(writer, config)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        _add_tensor(writer, name, weight.numpy(), config=config, stored=stored)
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_metadata(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_name("toy")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_dim = getattr(config, "head_dim", None)
    writer.add_key_length(head_dim or config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)


def _add_tensor(
    writer: gguf.GGUFWriter, name: str, weight: np.ndarray, *, config: Any, stored: str
) -> None:
    stem, part = name.removeprefix("model.layers.0.").rsplit(".", 1)
    norms = _NORMS.get(config.model_type, _PLAIN_NORMS)
    target = {**_NAMES, **norms}[stem]
    if stem != name.rsplit(".", 1)[0]:
        target = f"blk.0.{target}"
    if config.model_type == "llama" and stem in ("self_attn.q_proj", "self_attn.k_proj"):
        heads = config.num_attention_heads if "q_proj" in stem else config.num_key_value_heads
        halves = weight.reshape(heads, 2, -1, *weight.shape[1:])
        weight = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weight.shape)
    if config.model_type.startswith("gemma") and "norm" in stem:
        weight = weight + 1
    kind = gguf.GGMLQuantizationType[stored if weight.ndim > 1 else "F32"]
    writer.add_tensor(f"{target}.{part}", gguf.quantize(weight, kind), raw_dtype=kind)
