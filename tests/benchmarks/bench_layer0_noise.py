"""Layer 0 of one token, computed in batches of many shapes: how far its rows are from the table's.

Run: python tests/benchmarks/bench_layer0_noise.py [--device cuda] [--vocab 32768] [--tokens 2048]

Writes a bfloat16 model of 8B shape with random weights (the embedding and layer 0 alone), learns its
table without a forward pass, then runs embedding, norm and the projections on the device, in batches
of fifteen shapes: separate projections, and one of Q, K and V as engines fuse them. Prints the relative
distance of equal tokens to the table's rows, stored as bfloat16 and as fp8, that of different tokens
among themselves, and that of K rotated for a neighbouring position. First it proves that every row's
position is found from K.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from kvaudit.core.element_types import decoded
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.rope import relative_distances
from kvaudit.importers.model_weights import model_table

BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1000, 2048, 4096, 8192)
NUM_POSITIONS = 8192
STORED = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
FURTHEST_NEIGHBOUR = 64
EPS = 1e-5


def random_weights(arguments: argparse.Namespace) -> dict[str, torch.Tensor]:
    """The embedding, the first norm and the projections, under the names of a Llama model."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) * 0.02).to(torch.bfloat16)

    hidden, width = arguments.hidden, arguments.heads * arguments.head_dim
    layer = "model.layers.0."
    return {
        "model.embed_tokens.weight": normal(arguments.vocab, hidden),
        f"{layer}input_layernorm.weight": 1 + 5 * normal(hidden),
        f"{layer}self_attn.q_proj.weight": normal(hidden, hidden),
        f"{layer}self_attn.k_proj.weight": normal(width, hidden),
        f"{layer}self_attn.v_proj.weight": normal(width, hidden),
    }


def write_model(folder: Path, weights: dict[str, torch.Tensor], heads: int, head_dim: int) -> None:
    """A folder as makers publish it."""
    header, first = {}, 0
    for name, weight in weights.items():
        last = first + weight.nbytes
        header[name] = {
            "dtype": "BF16",
            "shape": list(weight.shape),
            "data_offsets": [first, last],
        }
        first = last
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for weight in weights.values():
            file.write(weight.view(torch.uint8).numpy().data)
    config = {
        "model_type": "llama",
        "hidden_size": weights["model.embed_tokens.weight"].shape[1],
        "num_attention_heads": weights["model.embed_tokens.weight"].shape[1] // head_dim,
        "num_key_value_heads": heads,
        "head_dim": head_dim,
        "rms_norm_eps": EPS,
        "rope_theta": 500_000.0,
        "max_position_embeddings": NUM_POSITIONS,
    }
    (folder / "config.json").write_text(json.dumps(config))


class Layer0:
    """Layer 0 on the device, as an engine computes it."""

    def __init__(self, weights: dict[str, torch.Tensor], table: Layer0Table, device: str) -> None:
        layer = "model.layers.0."
        self.embedding, self.norm, *projections = (each.to(device) for each in weights.values())
        self.width = len(weights[f"{layer}self_attn.k_proj.weight"])
        self.separate = projections[1:]
        self.fused = torch.cat(projections)
        self.shape = (table.num_heads, table.head_dim)
        frequencies = torch.from_numpy(table.rope.inverse_frequencies).float().to(device)
        angles = torch.arange(NUM_POSITIONS, device=device).float()[:, None] * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        self.cos, self.sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)

    def rows(
        self, tokens: torch.Tensor, positions: torch.Tensor, *, batch: int, is_fused: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotated K and V of the tokens, [n, heads, head_dim] each, `batch` at a time."""
        parts = [
            self._batch(some, where, is_fused=is_fused)
            for some, where in zip(tokens.split(batch), positions.split(batch), strict=True)
        ]
        k, v = (torch.cat(halves) for halves in zip(*parts, strict=True))
        return k, v

    def _batch(
        self, tokens: torch.Tensor, positions: torch.Tensor, *, is_fused: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        states = self.embedding[tokens].float()
        states = states * torch.rsqrt(states.square().mean(-1, keepdim=True) + EPS)
        states = self.norm * states.to(torch.bfloat16)
        if is_fused:
            k, v = (states @ self.fused.T)[:, -2 * self.width :].split(self.width, dim=-1)
        else:
            k, v = (states @ weight.T for weight in self.separate)
        k, v = k.reshape(-1, *self.shape), v.reshape(-1, *self.shape)
        firsts, seconds = k.chunk(2, dim=-1)
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        return k * cos + torch.cat((-seconds, firsts), dim=-1) * sin, v


def numbers(rows: torch.Tensor, stored: str) -> np.ndarray:
    """Rows as an audit reads them, when a cache stores them in a type."""
    data = rows.to(getattr(torch, stored)).contiguous().view(torch.uint8).cpu().numpy()
    return decoded(data.reshape(len(rows), -1), stored).reshape(rows.shape)


def nearest(rows: np.ndarray, device: str) -> float:
    """The least relative distance between different rows."""
    flat = torch.from_numpy(rows).reshape(len(rows), -1).to(device)
    gaps = torch.cdist(flat, flat).fill_diagonal_(math.inf)
    return float((gaps / flat.norm(dim=1, keepdim=True)).min())


def line(name: str, distances: list[np.ndarray]) -> float:
    """Prints the middle and the most of some distances; returns the most."""
    values = np.concatenate(distances)
    equal = np.mean(values == 0)
    print(f"{name:<34} median {np.median(values):.1e}  max {values.max():.1e}  equal {equal:.0%}")
    return float(values.max())


def measure(layer: Layer0, table: Layer0Table, arguments: argparse.Namespace) -> None:
    """Runs all shapes, and prints."""
    generator = np.random.default_rng(1)
    tokens = generator.choice(table.num_tokens, arguments.tokens, replace=False)
    positions = generator.integers(0, NUM_POSITIONS, arguments.tokens)
    on_device = [torch.from_numpy(each).to(arguments.device) for each in (tokens, positions)]
    rows = table.rows_of(tokens)
    k0, v0 = table.k_rows(rows), table.v_rows(rows)
    k_rotated = table.rope.rotated(k0, positions)
    first_v, between = None, []
    found: dict[str, list[np.ndarray]] = {}
    for is_fused in (False, True):
        for batch in BATCHES:
            k, v = layer.rows(*on_device, batch=batch, is_fused=is_fused)
            for stored in STORED:
                k_stored, v_stored = numbers(k, stored), numbers(v, stored)
                found.setdefault(f"V {stored}", []).append(relative_distances(v_stored, v0))
                found.setdefault(f"K {stored}", []).append(relative_distances(k_stored, k_rotated))
            first_v = numbers(v, "bfloat16") if first_v is None else first_v
            between.append(relative_distances(numbers(v, "bfloat16"), first_v))
        for stored in STORED:
            recovered = table.rope.positions_of(k0, numbers(k, stored), num_positions=NUM_POSITIONS)
            assert (recovered.positions == positions).all(), stored
    print(f"{len(BATCHES)} batch shapes, separate and fused; positions found in all rows")
    line("V between shapes, bfloat16", between)
    apart = nearest(v0, arguments.device)
    shifts = range(1, FURTHEST_NEIGHBOUR + 1)
    shifted = min(
        float(relative_distances(table.rope.rotated(k0, positions + shift), k_rotated).min())
        for shift in shifts
    )
    for half, least in (("V", apart), ("K", shifted)):
        for stored in STORED:
            most = line(f"{half} to the table, {stored}", found[f"{half} {stored}"])
            print(f"{'':<34} margin {least / most if most else math.inf:.0f} times")
    print(f"V of different tokens: at least {apart:.2f}")
    print(f"K up to {FURTHEST_NEIGHBOUR} positions away: at least {shifted:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--vocab", type=int, default=32_768)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=128)
    arguments = parser.parse_args()
    weights = random_weights(arguments)
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder), weights, arguments.heads, arguments.head_dim)
        started = time.perf_counter()
        table = model_table(folder)
        seconds = time.perf_counter() - started
    num_bytes = table.k0.nbytes + table.v0.nbytes
    print(
        f"table of {table.num_tokens} tokens: {seconds:.1f} s, {num_bytes / seconds / 1e9:.3f} GB/s"
    )
    measure(Layer0(weights, table, arguments.device), table, arguments)


if __name__ == "__main__":
    main()
