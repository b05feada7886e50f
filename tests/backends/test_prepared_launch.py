"""Prepared launches: what they do between calls and at preparation, on every device.

`test_launch` has the shared vectors; `test_prepared_cuda` what only streams and graphs show.
"""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import pytest
import torch

from kvaudit.backends import launch
from kvaudit.constants import RECORD_REAL_KV_HASH
from tests.helpers.torch_launches import (
    LAUNCHES,
    assert_outputs,
    make_context,
    make_source,
    on_device,
    stamp_all,
    tensors_of,
    vector_launch,
)
from tests.helpers.vectors import vector_cases

DEVICES = [
    pytest.param("cpu"),
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
        ],
    ),
]


def stamped(device: str = "cpu", **changes: Any) -> dict[str, Any]:
    """The arguments of a verify launch that finds everything right."""
    context = make_context(real_kv_sources=[make_source(), make_source()], **changes)
    plan = stamp_all(context, launch.launch_canary_write_kernel_torch_reference)
    arguments = {"context": context, "plan": plan, "check_verify_expected_token": True}
    return on_device(arguments, device)


@pytest.mark.parametrize("device", DEVICES)
def test_what_changes_between_calls_is_seen_by_the_next(device: str) -> None:
    arguments = stamped(device)
    context, plan = arguments["context"], arguments["plan"]
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    prepared()
    assert context.violation_write_index.tolist() == [0]
    context.real_kv_sources[1].tensor[2, 40] ^= 1  # slot 5: page 2, its second slot
    prepared()
    assert context.violation_ring[0, 1].item() == 5
    plan.verify_expected_tokens[2] += 1
    context.canary_buf[4] = 0
    prepared()
    # Slot 3's token, slot 4's record, slot 5 for its bytes and its predecessor.
    assert sorted(context.violation_ring[1:4, 1].tolist()) == [3, 4, 5]
    assert context.violation_write_index.tolist() == [4]
    plan.verify_num_valid.fill_(2)
    prepared()
    plan.enable.zero_()
    prepared()
    assert context.violation_write_index.tolist() == [4]
    assert context.kernel_run_counter.tolist() == [6]  # the write's, and five
    assert context.slot_run_counter.tolist() == [7 * 4 + 2]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", [launch.RealKvHashMode.PARTIAL, launch.RealKvHashMode.ALL])
def test_the_bytes_of_entries_that_come_into_use_are_folded_by_then(
    device: str, mode: launch.RealKvHashMode
) -> None:
    arguments = stamped(device, real_kv_hash_mode=mode)
    context, plan = arguments["context"], arguments["plan"]
    plan.verify_num_valid.fill_(2)
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    for source in context.real_kv_sources:
        source.tensor[2, 40] ^= 1  # slot 5: page 2, its second slot
    for num_valid, enable, num_rows in ((2, 1, 0), (7, 0, 0), (7, 1, 1), (4, 1, 1), (7, 1, 2)):
        plan.verify_num_valid.fill_(num_valid)
        plan.enable.fill_(enable)
        prepared()
        assert context.violation_write_index.tolist() == [num_rows]
    assert context.violation_ring[:2, 1].tolist() == [5, 5]


@pytest.mark.parametrize("device", DEVICES)
def test_a_write_folds_as_far_as_any_request_of_its_plan_reaches(device: str) -> None:
    """Offsets that decrease, and requests that come into use, against the twin on the same state.

    No two requests share a slot: a device writes them in any order.
    """
    slots = torch.arange(1, 8)
    tokens = {"input_ids": slots + 99, "positions": slots - 1, "out_cache_loc": slots}
    plan = launch.WritePlan(
        write_offsets=torch.tensor([5, 2, 4, 99]),
        write_seed_slot_indices=torch.full((3,), -1),
        write_num_valid_reqs=torch.zeros(1, dtype=torch.int32),
    )
    contexts = [make_context(real_kv_sources=[make_source(), make_source()]) for _ in range(2)]
    arguments, twin = (
        {"context": context, "plan": plan, "enable_write_input_assert": False, **tokens}
        for context in contexts
    )
    arguments = on_device(arguments, device)
    prepared = launch.prepare_canary_write_kernel(**arguments)
    for num_reqs in (0, 1, 2, 3, 9):
        arguments["plan"].write_num_valid_reqs.fill_(num_reqs)
        plan.write_num_valid_reqs.fill_(num_reqs)
        for context in (arguments["context"], twin["context"]):
            context.canary_buf.zero_()
        prepared()
        launch.launch_canary_write_kernel_torch_reference(**twin)
        written = arguments["context"].canary_buf.cpu()
        assert torch.equal(written, twin["context"].canary_buf)
        # The first request's offsets decrease; the third one's go past the tokens.
        wanted = {0: 0, 1: 0, 2: 2}.get(num_reqs, 5)
        assert written.view(torch.int64)[:, RECORD_REAL_KV_HASH].count_nonzero() == wanted


def turn(arguments: dict[str, Any], *, device: str) -> None:
    """Turn every tensor by one element, so that much of what they hold is malformed.

    On a device the rows of a ring stay: they came in any order, and one that is turned depends on it.
    """
    kept = (
        [arguments["context"].violation_ring] if device == "cuda" and "context" in arguments else []
    )
    for tensor in tensors_of(arguments):
        if not any(tensor is ring for ring in kept):
            tensor.copy_(tensor.flatten().roll(1).view_as(tensor))


def refusal_of(run: Any) -> str:
    """The message of a plan launch that met an index outside its tables; empty without one."""
    try:
        run()
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family", LAUNCHES)
def test_calls_on_changed_contents_equal_launches_on_them(family: str, device: str) -> None:
    name = LAUNCHES[family]
    one_shot = getattr(launch, f"launch_{name}")
    for case, (inputs, _) in enumerate(vector_cases(family)):
        arguments, outputs = vector_launch(family, inputs, device=device)
        twins, twin_outputs = vector_launch(family, inputs, device=device)
        prepared = getattr(launch, f"prepare_{name}")(**arguments)
        for call in range(3):
            refusal = refusal_of(prepared)
            assert refusal == refusal_of(lambda twins=twins: one_shot(**twins))
            if refusal:
                break  # what it has written by then is unspecified
            assert_outputs(
                outputs(), twin_outputs(), rows_are_free=device == "cuda", case=(case, call)
            )
            turn(arguments, device=device)
            turn(twins, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_live_as_long_as_the_launch_that_was_prepared_on_them(device: str) -> None:
    arguments = stamped(device)
    counter = arguments["context"].kernel_run_counter
    index = arguments["context"].violation_write_index
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    del arguments
    gc.collect()
    _ = [torch.full((1 << 12,), -1, device=device) for _ in range(100)]
    prepared()
    assert (counter.tolist(), index.tolist()) == ([2], [0])


@pytest.mark.parametrize("device", DEVICES)
def test_memory_that_replaces_a_tensors_own_is_not_seen(device: str) -> None:
    arguments = stamped(device)
    context = arguments["context"]
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    pages = context.real_kv_sources[0].tensor
    pages.data = torch.zeros_like(pages)
    prepared()
    assert context.violation_write_index.tolist() == [0]
    launch.launch_canary_verify_kernel(**arguments)
    assert context.violation_write_index.tolist() == [7]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["verify_slot_indices", "verify_num_valid", "enable"])
def test_entries_that_replace_a_plan_s_own_are_not_seen(name: str, device: str) -> None:
    arguments = stamped(device)
    context, plan = arguments["context"], arguments["plan"]
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    getattr(plan, name).data = torch.zeros_like(getattr(plan, name)[:1])
    prepared()
    assert context.violation_write_index.tolist() == [0]
    assert context.slot_run_counter.tolist() == [7 + 7]


@pytest.mark.parametrize("device", DEVICES)
def test_slots_that_replace_a_write_s_own_are_not_seen(device: str) -> None:
    """Their number would say how many entries are folded."""
    context = make_context(real_kv_sources=[make_source()])
    slots = torch.arange(1, 5)
    arguments = on_device(
        {
            "context": context,
            "plan": launch.WritePlan(
                write_offsets=torch.tensor([0, 4]),
                write_seed_slot_indices=torch.tensor([-1]),
                write_num_valid_reqs=torch.ones(1, dtype=torch.int32),
            ),
            "input_ids": slots,
            "positions": slots - 1,
            "out_cache_loc": slots,
            "enable_write_input_assert": False,
        },
        device,
    )
    launch.launch_canary_write_kernel(**arguments)
    records = arguments["context"].canary_buf
    stamped_once = records.tolist()
    prepared = launch.prepare_canary_write_kernel(**arguments)
    records.zero_()
    arguments["out_cache_loc"].data = arguments["out_cache_loc"][:1].clone()
    prepared()
    assert records.tolist() == stamped_once


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("prepares_in_it", [True, False])
def test_preparing_and_calling_may_differ_in_inference_mode(
    prepares_in_it: bool, device: str
) -> None:
    arguments = stamped(device)
    with torch.inference_mode(prepares_in_it):
        prepared = launch.prepare_canary_verify_kernel(**arguments)
    with torch.inference_mode(not prepares_in_it):
        prepared()
    assert arguments["context"].kernel_run_counter.tolist() == [2]
    assert arguments["context"].violation_write_index.tolist() == [0]


@pytest.mark.parametrize("device", DEVICES)
def test_preparing_runs_nothing(device: str) -> None:
    for family, name in LAUNCHES.items():
        arguments, outputs = vector_launch(family, vector_cases(family)[0].inputs, device=device)
        before = {key: values.tolist() for key, values in outputs().items()}
        prepared = getattr(launch, f"prepare_{name}")(**arguments)
        assert {key: values.tolist() for key, values in outputs().items()} == before
        assert prepared.device.type == device


def test_what_a_launch_refuses_is_refused_when_it_is_prepared() -> None:
    arguments = stamped()
    context = dataclasses.replace(arguments["context"], violation_ring=torch.zeros((4, 7)))
    with pytest.raises(ValueError, match=r"^violation_ring: "):
        launch.prepare_canary_verify_kernel(**{**arguments, "context": context})
    pages = arguments["context"].real_kv_sources[1].tensor
    pages.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"^real_kv_sources\[1\]\.tensor: its memory was given"):
        launch.prepare_canary_verify_kernel(**arguments)


def test_tensors_on_another_kind_of_device_are_refused() -> None:
    with pytest.raises(ValueError, match="meta"):
        launch.prepare_canary_verify_kernel(**on_device(stamped(), "meta"))


def test_a_plan_that_meets_a_wild_index_can_be_called_again() -> None:
    """On the CPU it is an error of the call, and what was prepared is as good as before."""
    verify_plan = launch.VerifyPlan.allocate(verify_capacity=4, device="cpu")
    prefix_lens = torch.tensor([3])
    prepared = launch.prepare_canary_plan_kernels(
        verify_plan_out=verify_plan,
        write_plan_out=launch.WritePlan.allocate(write_req_capacity=1, device="cpu"),
        req_pool_indices=torch.tensor([1]),
        prefix_lens=prefix_lens,
        extend_seq_lens=torch.tensor([1]),
        req_to_token=torch.tensor([[0, 0, 0], [5, 6, 7]], dtype=torch.int32),
        swa_window_size=0,
        full_to_swa_index_mapping=None,
        verify_capacity=4,
    )
    prefix_lens.fill_(4)
    with pytest.raises(ValueError, match="req_to_token"):
        prepared()
    prefix_lens.fill_(2)
    prepared()
    assert verify_plan.verify_num_valid.tolist() == [2]
    assert verify_plan.verify_slot_indices[:2].tolist() == [5, 6]


def test_a_prepared_launch_stays_as_it_was_prepared() -> None:
    prepared = launch.prepare_canary_verify_kernel(**stamped())
    with pytest.raises(dataclasses.FrozenInstanceError):
        prepared.device = torch.device("meta")
