"""Builders of launch arguments, and the shared vectors as torch tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from kvaudit.backends import launch

STATE = ("violation_ring", "violation_write_index", "slot_run_counter", "kernel_run_counter")
VERIFY_FIELDS = tuple(launch.VerifyPlan.__dataclass_fields__)
WRITE_FIELDS = tuple(launch.WritePlan.__dataclass_fields__)
TOKENS = (
    "input_ids",
    "positions",
    "out_cache_loc",
    "expected_input_tokens",
    "expected_input_positions",
)
BATCH = (
    "req_pool_indices",
    "prefix_lens",
    "extend_seq_lens",
    "req_to_token",
    "full_to_swa_index_mapping",
    "req_to_verify_expected_tokens",
    "req_to_verify_expected_tokens_valid_lens",
)
LAUNCHES = {
    "verify": "canary_verify_kernel",
    "write": "canary_write_kernel",
    "plan": "canary_plan_kernels",
}
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


class VectorLaunch(NamedTuple):
    """A case of the shared vectors as a launch: its arguments, and what is read after it ran."""

    arguments: dict[str, Any]
    outputs: Callable[[], dict[str, np.ndarray]]


def vector_launch(family: str, inputs: dict[str, Any], *, device: str = "cpu") -> VectorLaunch:
    """A case of `verify`, `write` or `plan` on tensors of a device."""
    build = {"verify": _vector_verify, "write": _vector_write, "plan": _vector_plan}
    return build[family](inputs, device)


def _tensors(inputs: dict[str, Any], names: tuple[str, ...], device: str) -> dict[str, Any]:
    return {name: tensor(inputs, name, device=device) for name in names}


def _vector_verify(inputs: dict[str, Any], device: str) -> VectorLaunch:
    context = vector_context(inputs, device=device)
    arguments = {
        "context": context,
        "plan": launch.VerifyPlan(**_tensors(inputs, VERIFY_FIELDS, device)),
        "check_verify_expected_token": bool(inputs["check_verify_expected_token"]),
    }
    return VectorLaunch(arguments, lambda: state_of(context))


def _vector_write(inputs: dict[str, Any], device: str) -> VectorLaunch:
    context = vector_context(inputs, device=device)
    arguments = {
        "context": context,
        "plan": launch.WritePlan(**_tensors(inputs, WRITE_FIELDS, device)),
        "enable_write_input_assert": bool(inputs["enable_write_input_assert"]),
        **_tensors(inputs, TOKENS, device),
    }
    return VectorLaunch(arguments, lambda: state_of(context))


def _vector_plan(inputs: dict[str, Any], device: str) -> VectorLaunch:
    verify_capacity = int(inputs["verify_capacity"])
    verify_plan = launch.VerifyPlan.allocate(verify_capacity=verify_capacity, device=device)
    verify_plan.enable.zero_()
    write_plan = launch.WritePlan.allocate(
        write_req_capacity=int(inputs["write_req_capacity"]), device=device
    )
    arguments = {
        "verify_plan_out": verify_plan,
        "write_plan_out": write_plan,
        "swa_window_size": int(inputs["swa_window_size"]),
        "verify_capacity": verify_capacity,
        "kv_token_id_vs_position_offset": int(inputs["kv_token_id_vs_position_offset"]),
        **_tensors(inputs, BATCH, device),
    }

    def outputs() -> dict[str, np.ndarray]:
        written = {name: getattr(verify_plan, name) for name in VERIFY_FIELDS}
        written |= {name: getattr(write_plan, name) for name in WRITE_FIELDS}
        return {name: values.cpu().numpy() for name, values in written.items()}

    return VectorLaunch(arguments, outputs)


def assert_outputs(
    actual: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
    *,
    rows_are_free: bool,
    case: object,
) -> None:
    """Ring rows in order; on a device in any order, and which of them an overflow keeps is free."""
    for name, values in expected.items():
        is_free = name == "violation_ring" and rows_are_free
        if is_free and expected["violation_write_index"][0] > len(values):
            continue
        pair = (actual[name].tolist(), values.tolist())
        found, wanted = map(sorted, pair) if is_free else pair
        assert found == wanted, f"case {case}: {name}"


def tensors_of(value: object) -> Iterator[torch.Tensor]:
    """Every tensor among a launch's arguments, always in one order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_of(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from tensors_of(getattr(value, field.name))


def on_device(value: Any, device: str) -> Any:
    """Launch arguments with copies of their tensors on a device."""
    if isinstance(value, torch.Tensor):
        return value.to(device, copy=True)
    if isinstance(value, dict):
        return {name: on_device(item, device) for name, item in value.items()}
    if isinstance(value, list):
        return [on_device(item, device) for item in value]
    if dataclasses.is_dataclass(value):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return dataclasses.replace(value, **on_device(fields, device))
    return value


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
