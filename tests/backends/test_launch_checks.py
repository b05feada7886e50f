"""One test a rule: each refusal names the tensor, and nothing has been launched."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kvaudit.backends import launch
from tests.helpers.torch_launches import make_context, make_source

BYTES = torch.zeros((8, 64), dtype=torch.uint8)

_ODD_BYTES = np.zeros(8 * 32 + 16, dtype=np.uint8)[3:]
_FIRST_WORD = -_ODD_BYTES.ctypes.data % 8
# In memory it starts at a word, in its storage it does not: torch cannot view it as words.
BUFFER_CUT_MID_WORD = torch.from_numpy(_ODD_BYTES)[_FIRST_WORD : _FIRST_WORD + 256].view(8, 32)

CONTEXT_FAULTS = {
    "dtype": ({"canary_buf": torch.zeros((8, 32), dtype=torch.int8)}, "canary_buf"),
    "dimensions": ({"canary_buf": torch.zeros(256, dtype=torch.uint8)}, "canary_buf"),
    "short row": ({"canary_buf": torch.zeros((8, 24), dtype=torch.uint8)}, "canary_buf"),
    "ragged row": ({"canary_buf": torch.zeros((8, 36), dtype=torch.uint8)}, "canary_buf"),
    "gaps": ({"canary_buf": torch.zeros((8, 64), dtype=torch.uint8)[:, :32]}, "canary_buf"),
    "unaligned": (
        {"canary_buf": torch.zeros(257, dtype=torch.uint8)[1:].view(8, 32)},
        "canary_buf",
    ),
    "aligned by chance": ({"canary_buf": BUFFER_CUT_MID_WORD}, "canary_buf"),
    "ring width": ({"violation_ring": torch.zeros((4, 7), dtype=torch.int64)}, "violation_ring"),
    "ring dtype": ({"violation_ring": torch.zeros((4, 8), dtype=torch.int32)}, "violation_ring"),
    "write index": (
        {"violation_write_index": torch.zeros(1, dtype=torch.int64)},
        "violation_write_index",
    ),
    "slot counter": ({"slot_run_counter": torch.zeros(2, dtype=torch.int64)}, "slot_run_counter"),
    "run counter": (
        {"kernel_run_counter": torch.zeros(1, dtype=torch.int32)},
        "kernel_run_counter",
    ),
    "chain flag": (
        {"enable_chain_position_assert": torch.zeros(1, dtype=torch.bool)},
        "enable_chain_position_assert",
    ),
    "device": (
        {"violation_ring": torch.zeros((4, 8), dtype=torch.int64, device="meta")},
        "violation_ring",
    ),
    "tag": ({"kernel_kind": 12}, "kernel_kind"),
    "mode": ({"real_kv_hash_mode": 3}, "real_kv_hash_mode"),
    "tags": ({"kernel_kind": torch.tensor([2, 3])}, "kernel_kind"),
}

SOURCE_FAULTS = {
    "page size past 64 bits": ({"page_size": 1 << 63}, "page_size"),
    "page size": ({"page_size": 0}, "page_size"),
    "token bytes": ({"num_bytes_per_token": 24}, "num_bytes_per_token"),
    "no token bytes": ({"num_bytes_per_token": 0, "read_bytes": 0}, "num_bytes_per_token"),
    "ragged read": ({"read_bytes": 8}, "read_bytes"),
    "negative read": ({"read_bytes": -16}, "read_bytes"),
    "read past the token": ({"read_bytes": 48}, "read_bytes"),
    "dimensions": ({"tensor": torch.zeros(512, dtype=torch.uint8)}, "tensor"),
    "row stride": ({"tensor": torch.zeros((8, 72), dtype=torch.uint8)[:, :64]}, "tensor"),
    "element stride": ({"tensor": torch.zeros((8, 128), dtype=torch.uint8)[:, ::2]}, "tensor"),
    "gaps in a row": (
        {"tensor": torch.zeros((8, 2, 64), dtype=torch.uint8)[:, :, :32]},
        "tensor",
    ),
    "row width": ({"tensor": BYTES[:, :48]}, "tensor"),
    "rows": ({"tensor": BYTES[:3]}, "tensor"),
    "device": ({"tensor": BYTES.to("meta")}, "tensor"),
}

VERIFY_FAULTS = {
    "dtype": ("verify_slot_indices", torch.zeros(4, dtype=torch.int32)),
    "dimensions": ("verify_slot_indices", torch.zeros((4, 1), dtype=torch.int64)),
    "token count": ("verify_expected_tokens", torch.zeros(3, dtype=torch.int64)),
    "position count": ("verify_expected_positions", torch.zeros(5, dtype=torch.int64)),
    "gaps": ("verify_prev_slot_indices", torch.zeros(8, dtype=torch.int64)[::2]),
    "num_valid": ("verify_num_valid", torch.zeros(1, dtype=torch.int64)),
    "enable": ("enable", torch.zeros((), dtype=torch.int32)),
    "device": ("verify_slot_indices", torch.zeros(4, dtype=torch.int64, device="meta")),
}

WRITE_FAULTS = {
    "offsets": ("write_offsets", torch.zeros(2, dtype=torch.int64)),
    "seeds": ("write_seed_slot_indices", torch.zeros(2, dtype=torch.int32)),
    "requests": ("write_num_valid_reqs", torch.zeros(2, dtype=torch.int32)),
}


def cases(faults: dict[str, Any]) -> Any:
    return [pytest.param(*fault, id=name) for name, fault in faults.items()]


def verify(context: Any, plan: Any = None) -> None:
    launch.launch_canary_verify_kernel(
        context=context,
        plan=plan or launch.VerifyPlan.allocate(verify_capacity=4, device="cpu"),
        check_verify_expected_token=False,
    )


def of_another_type(value: Any) -> SimpleNamespace:
    fields = dataclasses.fields(value)
    return SimpleNamespace(**{field.name: getattr(value, field.name) for field in fields})


@pytest.mark.parametrize(("changes", "name"), cases(CONTEXT_FAULTS))
def test_unusable_state_is_refused_by_name(changes: dict[str, Any], name: str) -> None:
    context = make_context(**changes)
    with pytest.raises(ValueError, match=f"^{name}: "):
        verify(context)
    assert not context.kernel_run_counter.any()


@pytest.mark.parametrize(("changes", "name"), cases(SOURCE_FAULTS))
def test_an_unusable_source_is_refused_by_number_and_field(
    changes: dict[str, Any], name: str
) -> None:
    context = make_context(real_kv_sources=[make_source(), make_source(**changes)])
    with pytest.raises(ValueError, match=rf"^real_kv_sources\[1\]\.{name}: "):
        verify(context)
    assert context.kernel_run_counter.tolist() == [0]


@pytest.mark.parametrize(("name", "column"), cases(VERIFY_FAULTS))
def test_an_unusable_verify_plan_is_refused_by_column(name: str, column: torch.Tensor) -> None:
    plan = launch.VerifyPlan.allocate(verify_capacity=4, device="cpu")
    with pytest.raises(ValueError, match=rf"^{name}: "):
        verify(make_context(), dataclasses.replace(plan, **{name: column}))


@pytest.mark.parametrize(("name", "column"), cases(WRITE_FAULTS))
def test_an_unusable_write_plan_is_refused_by_column(name: str, column: torch.Tensor) -> None:
    plan = launch.WritePlan.allocate(write_req_capacity=2, device="cpu")
    nothing = torch.zeros(0, dtype=torch.int64)
    with pytest.raises(ValueError, match=f"^{name}: "):
        launch.launch_canary_write_kernel(
            context=make_context(),
            plan=dataclasses.replace(plan, **{name: column}),
            input_ids=nothing,
            positions=nothing,
            out_cache_loc=nothing,
            enable_write_input_assert=False,
        )


def test_a_list_is_no_tensor() -> None:
    with pytest.raises(ValueError, match=r"^violation_ring: is a list"):
        verify(make_context(violation_ring=[[0] * 8]))
    with pytest.raises(ValueError, match=r"^real_kv_sources\[0\]\.tensor: is a list"):
        verify(make_context(real_kv_sources=[make_source(tensor=[1])]))
    with pytest.raises(ValueError, match=r"^real_kv_sources: is a NoneType"):
        verify(make_context(real_kv_sources=None))


def test_a_wider_record_row_and_an_empty_ring_are_accepted() -> None:
    context = make_context(
        canary_buf=torch.zeros((8, 48), dtype=torch.uint8),
        violation_ring=torch.zeros((0, 8), dtype=torch.int64),
    )
    verify(context)
    assert context.kernel_run_counter.tolist() == [1]


@pytest.mark.parametrize("value", [None, [0] * 4, np.zeros(4, dtype=np.int64)])
@pytest.mark.parametrize("name", ["verify_slot_indices", "verify_expected_tokens", "enable"])
def test_what_is_no_tensor_is_refused_by_name(name: str, value: object) -> None:
    plan = launch.VerifyPlan.allocate(verify_capacity=4, device="cpu")
    with pytest.raises(ValueError, match=rf"^{name}: "):
        verify(make_context(), dataclasses.replace(plan, **{name: value}))
    with pytest.raises(ValueError, match=r"^canary_buf: "):
        verify(make_context(canary_buf=value))


def test_what_lacks_a_field_is_refused_by_it() -> None:
    with pytest.raises(ValueError, match=r"^context: is a NoneType, .* no canary_buf$"):
        verify(None)
    with pytest.raises(ValueError, match=r"^plan: is a WritePlan, .* no verify_slot_indices$"):
        verify(make_context(), launch.WritePlan.allocate(write_req_capacity=1, device="cpu"))
    with pytest.raises(ValueError, match=r"^real_kv_sources\[0\]: is a str, .* no tensor$"):
        verify(make_context(real_kv_sources="pages"))


def test_an_engine_s_own_types_do_if_they_have_the_fields() -> None:
    context = of_another_type(make_context(real_kv_sources=[of_another_type(make_source())]))
    plan = of_another_type(launch.VerifyPlan.allocate(verify_capacity=4, device="cpu"))
    verify(context, plan)
    assert context.kernel_run_counter.tolist() == [1]


@pytest.mark.parametrize("field", ["page_size", "num_bytes_per_token", "read_bytes"])
@pytest.mark.parametrize("value", [None, 16.0, "16"])
def test_a_geometry_is_whole_numbers(field: str, value: object) -> None:
    source = dataclasses.replace(make_source(), **{field: value})
    with pytest.raises(ValueError, match=rf"^real_kv_sources\[0\]\.{field}: "):
        verify(make_context(real_kv_sources=[source]))
