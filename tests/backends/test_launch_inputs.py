"""What write and plan launches refuse of their batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvaudit.backends import launch
from tests.helpers.torch_launches import make_context

TWO = torch.zeros(2, dtype=torch.int64)
THREE = torch.zeros(3, dtype=torch.int64)
TABLE = torch.zeros((2, 4), dtype=torch.int32)

TOKEN_FAULTS = {
    "dtype": ({"input_ids": TWO.int()}, "input_ids"),
    "positions": ({"positions": THREE}, "positions"),
    "slots": ({"out_cache_loc": THREE}, "out_cache_loc"),
    "gaps": ({"out_cache_loc": torch.zeros(4, dtype=torch.int64)[::2]}, "out_cache_loc"),
    "flag without tokens": (
        {"enable_write_input_assert": True, "expected_input_positions": TWO},
        "expected_input_tokens",
    ),
    "flag without positions": (
        {"enable_write_input_assert": True, "expected_input_tokens": TWO},
        "expected_input_positions",
    ),
    "no flag": ({"enable_write_input_assert": torch.tensor([1, 0])}, "enable_write_input_assert"),
    "tokens without flag": ({"expected_input_tokens": TWO}, "expected_input_tokens"),
    "positions without flag": ({"expected_input_positions": TWO}, "expected_input_positions"),
    "expected length": (
        {
            "enable_write_input_assert": True,
            "expected_input_tokens": THREE,
            "expected_input_positions": TWO,
        },
        "expected_input_tokens",
    ),
}

BATCH_FAULTS = {
    "dtype": ({"req_pool_indices": TWO.int()}, "req_pool_indices"),
    "prefixes": ({"prefix_lens": THREE}, "prefix_lens"),
    "extends": ({"extend_seq_lens": THREE}, "extend_seq_lens"),
    "table dtype": ({"req_to_token": TABLE.long()}, "req_to_token"),
    "table shape": ({"req_to_token": TABLE.view(-1)}, "req_to_token"),
    "device": ({"req_to_token": TABLE.to("meta")}, "req_to_token"),
    "batch size": (
        {"req_pool_indices": THREE, "prefix_lens": THREE, "extend_seq_lens": THREE},
        "req_pool_indices",
    ),
    "capacity": ({"verify_capacity": 5}, "verify_capacity"),
    "negative window": ({"swa_window_size": -1}, "swa_window_size"),
    "window without map": ({"swa_window_size": 4}, "full_to_swa_index_mapping"),
    "map dtype": ({"full_to_swa_index_mapping": TWO.int()}, "full_to_swa_index_mapping"),
    "empty map": (
        {"full_to_swa_index_mapping": torch.zeros(0, dtype=torch.int64)},
        "full_to_swa_index_mapping",
    ),
    "window past 64 bits": (
        {"swa_window_size": 1 << 63, "full_to_swa_index_mapping": TWO},
        "swa_window_size",
    ),
    "offset past 64 bits": (
        {"kv_token_id_vs_position_offset": -(1 << 63) - 1},
        "kv_token_id_vs_position_offset",
    ),
    "tokens dtype": (
        {"req_to_verify_expected_tokens": TABLE.long()},
        "req_to_verify_expected_tokens",
    ),
    "tokens without lengths": (
        {"req_to_verify_expected_tokens": TABLE},
        "req_to_verify_expected_tokens_valid_lens",
    ),
    "lengths": (
        {
            "req_to_verify_expected_tokens": TABLE,
            "req_to_verify_expected_tokens_valid_lens": THREE,
        },
        "req_to_verify_expected_tokens_valid_lens",
    ),
}


def cases(faults: dict[str, Any]) -> Any:
    return [pytest.param(*fault, id=name) for name, fault in faults.items()]


@pytest.mark.parametrize(("changes", "name"), cases(TOKEN_FAULTS))
def test_unusable_tokens_are_refused_by_name(changes: dict[str, Any], name: str) -> None:
    arguments: dict[str, Any] = {
        "input_ids": TWO,
        "positions": TWO,
        "out_cache_loc": TWO,
        "enable_write_input_assert": False,
    }
    context = make_context()
    with pytest.raises(ValueError, match=f"^{name}: "):
        launch.launch_canary_write_kernel(
            context=context,
            plan=launch.WritePlan.allocate(write_req_capacity=1, device="cpu"),
            **{**arguments, **changes},
        )
    assert context.kernel_run_counter.tolist() == [0]


@pytest.mark.parametrize(("changes", "name"), cases(BATCH_FAULTS))
def test_an_unusable_batch_is_refused_by_name(changes: dict[str, Any], name: str) -> None:
    arguments: dict[str, Any] = {
        "req_pool_indices": TWO,
        "prefix_lens": TWO,
        "extend_seq_lens": TWO,
        "req_to_token": TABLE,
        "swa_window_size": 0,
        "full_to_swa_index_mapping": None,
        "verify_capacity": 4,
    }
    with pytest.raises(ValueError, match=f"^{name}: "):
        launch.launch_canary_plan_kernels(
            verify_plan_out=launch.VerifyPlan.allocate(verify_capacity=4, device="cpu"),
            write_plan_out=launch.WritePlan.allocate(write_req_capacity=2, device="cpu"),
            **{**arguments, **changes},
        )
