"""Builders of launch arguments, and the shared vectors as torch tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kvaudit.backends import launch

STATE = ("violation_ring", "violation_write_index", "slot_run_counter", "kernel_run_counter")
VERIFY_FIELDS = tuple(launch.VerifyPlan.__dataclass_fields__)
WRITE_FIELDS = tuple(launch.WritePlan.__dataclass_fields__)
_SOURCE_PARAMS = ("page_size", "num_bytes_per_token", "read_bytes")


def tensor(inputs: dict[str, Any], name: str, *, device: str = "cpu") -> torch.Tensor | None:
    """A copy of one input; None when the case has none."""
    return torch.tensor(inputs[name], device=device) if name in inputs else None


def vector_context(inputs: dict[str, Any], *, device: str = "cpu") -> launch.VerifyOrWriteContext:
    """The canary's state of a case."""
    sources = [
        launch.RealKvSource(
            tensor=torch.tensor(inputs[f"source{idx}.tensor"], device=device),
            **dict(zip(_SOURCE_PARAMS, inputs[f"source{idx}.params"].tolist(), strict=True)),
        )
        for idx in range(int(inputs["num_sources"]))
    ]
    return launch.VerifyOrWriteContext(
        canary_buf=tensor(inputs, "canary_buf", device=device).view(torch.uint8),
        kernel_kind=launch.CanaryLaunchTag(int(inputs["kernel_kind"])),
        real_kv_sources=sources,
        real_kv_hash_mode=launch.RealKvHashMode(int(inputs["real_kv_hash_mode"])),
        enable_chain_position_assert=tensor(inputs, "enable_chain_position_assert", device=device),
        **{name: tensor(inputs, name, device=device) for name in STATE},
    )


def state_of(context: launch.VerifyOrWriteContext) -> dict[str, np.ndarray]:
    """What a launch may change, as arrays by the vectors' names."""
    state = {name: getattr(context, name).cpu().numpy() for name in STATE}
    return {"canary_buf": context.canary_buf.view(torch.int64).cpu().numpy(), **state}


def make_context(*, num_slots: int = 8, device: str = "cpu", **changes: Any) -> Any:
    """Empty state: records of zeros, a ring of 16 rows, no sources, a tail launch."""
    fields: dict[str, Any] = {
        "canary_buf": torch.zeros((num_slots, 32), dtype=torch.uint8, device=device),
        "kernel_kind": launch.CanaryLaunchTag.TAIL_K_FULL,
        "violation_ring": torch.zeros((16, 8), dtype=torch.int64, device=device),
        "violation_write_index": torch.zeros(1, dtype=torch.int32, device=device),
        "slot_run_counter": torch.zeros(1, dtype=torch.int64, device=device),
        "kernel_run_counter": torch.zeros(1, dtype=torch.int64, device=device),
        "real_kv_sources": [],
        "real_kv_hash_mode": launch.RealKvHashMode.ALL,
        "enable_chain_position_assert": torch.ones(1, dtype=torch.int32, device=device),
    }
    return launch.VerifyOrWriteContext(**{**fields, **changes})


def make_source(*, num_slots: int = 8, **changes: Any) -> Any:
    """A source of 32 bytes a slot, two slots a page, all of it read, filled with a pattern."""
    page_size, num_bytes = 2, 32
    rows = torch.arange(num_slots * num_bytes, dtype=torch.int64).remainder(251).to(torch.uint8)
    fields: dict[str, Any] = {
        "tensor": rows.view(-1, page_size * num_bytes),
        "page_size": page_size,
        "num_bytes_per_token": num_bytes,
        "read_bytes": num_bytes,
    }
    return launch.RealKvSource(**{**fields, **changes})


def stamp_all(context: launch.VerifyOrWriteContext, write: Any) -> launch.VerifyPlan:
    """Write slots 1.. as one chain of tokens 100, 101, .. and plan to verify all of them."""
    num_entries = context.canary_buf.shape[0] - 1
    slots = torch.arange(1, num_entries + 1)
    plan = launch.WritePlan(
        write_offsets=torch.tensor([0, num_entries]),
        write_seed_slot_indices=torch.tensor([-1]),
        write_num_valid_reqs=torch.tensor([1], dtype=torch.int32),
    )
    write(
        context=context,
        plan=plan,
        input_ids=slots + 99,
        positions=slots - 1,
        out_cache_loc=slots,
        enable_write_input_assert=False,
    )
    return launch.VerifyPlan(
        verify_slot_indices=slots,
        verify_expected_tokens=slots + 99,
        verify_expected_positions=slots - 1,
        verify_prev_slot_indices=torch.cat([torch.tensor([-1]), slots[:-1]]),
        verify_num_valid=torch.tensor([num_entries], dtype=torch.int32),
        enable=torch.ones(1, dtype=torch.int32),
    )
