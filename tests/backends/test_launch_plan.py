from __future__ import annotations

from typing import Any

import pytest
import torch

from kvaudit.backends import launch

PLANNERS = [
    pytest.param(launch.launch_canary_plan_kernels_torch_reference, id="reference"),
    pytest.param(launch.launch_canary_plan_kernels, id="cpu"),
]
REQ_TO_TOKEN = torch.tensor([[0, 0, 0, 0], [4, 5, 6, 7]], dtype=torch.int32)


@pytest.fixture(params=PLANNERS)
def plan(request: pytest.FixtureRequest) -> Any:
    def run(*, verify_capacity: int = 4, **changes: Any) -> tuple[Any, Any]:
        arguments = {
            "req_pool_indices": torch.tensor([1]),
            "prefix_lens": torch.tensor([3]),
            "extend_seq_lens": torch.tensor([1]),
            "req_to_token": REQ_TO_TOKEN,
            "swa_window_size": 0,
            "full_to_swa_index_mapping": None,
        }
        verify_plan = launch.VerifyPlan.allocate(verify_capacity=verify_capacity, device="cpu")
        write_plan = launch.WritePlan.allocate(write_req_capacity=2, device="cpu")
        request.param(
            verify_plan_out=verify_plan,
            write_plan_out=write_plan,
            verify_capacity=verify_capacity,
            **{**arguments, **changes},
        )
        return verify_plan, write_plan

    return run


def test_a_prefix_becomes_entries_and_an_extension_a_seed(plan: Any) -> None:
    verify_plan, write_plan = plan()
    assert verify_plan.verify_num_valid.tolist() == [3]
    assert verify_plan.verify_slot_indices.tolist() == [4, 5, 6, 0]
    assert verify_plan.verify_prev_slot_indices.tolist() == [-1, 4, 5, 0]
    assert verify_plan.verify_expected_positions.tolist() == [0, 1, 2, 0]
    assert verify_plan.verify_expected_tokens.tolist() == [-1, -1, -1, -1]
    assert write_plan.write_offsets.tolist() == [0, 1, 0]
    assert write_plan.write_seed_slot_indices.tolist() == [6, 0]
    assert write_plan.write_num_valid_reqs.tolist() == [1]


def test_more_entries_than_fit_disable_the_launch(plan: Any) -> None:
    verify_plan, _ = plan(verify_capacity=2)
    assert verify_plan.enable.tolist() == [0]
    assert verify_plan.verify_num_valid.tolist() == [2]
    assert verify_plan.verify_slot_indices.tolist() == [0, 0]


def test_a_window_is_mapped_and_expected_tokens_are_read_at_their_offset(plan: Any) -> None:
    verify_plan, _ = plan(
        swa_window_size=2,
        full_to_swa_index_mapping=torch.tensor([0, -1, -1, -1, 10, 11, 12, 13]),
        req_to_verify_expected_tokens=torch.tensor([[0] * 4, [21, 22, 23, 24]], dtype=torch.int32),
        req_to_verify_expected_tokens_valid_lens=torch.tensor([3]),
        kv_token_id_vs_position_offset=1,
    )
    assert verify_plan.verify_slot_indices.tolist() == [11, 12, 0, 0]
    assert verify_plan.verify_prev_slot_indices.tolist() == [10, 11, 0, 0]
    assert verify_plan.verify_expected_tokens.tolist() == [23, -1, -1, -1]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        pytest.param({"req_pool_indices": torch.tensor([2])}, "req_to_token", id="request"),
        pytest.param({"req_pool_indices": torch.tensor([-1])}, "req_to_token", id="negative"),
        pytest.param({"prefix_lens": torch.tensor([5])}, "req_to_token", id="position"),
        pytest.param(
            {"req_to_token": torch.zeros((2, 0), dtype=torch.int32)}, "req_to_token", id="no tokens"
        ),
        pytest.param(
            {"full_to_swa_index_mapping": torch.zeros(5, dtype=torch.int64)},
            "full_to_swa_index_mapping",
            id="mapping",
        ),
        pytest.param(
            {"full_to_swa_index_mapping": torch.zeros(6, dtype=torch.int64), "verify_capacity": 2},
            "full_to_swa_index_mapping",
            id="mapping of a seed alone",
        ),
        pytest.param(
            {
                "req_to_verify_expected_tokens": torch.zeros((2, 2), dtype=torch.int32),
                "req_to_verify_expected_tokens_valid_lens": torch.tensor([3]),
            },
            "req_to_verify_expected_tokens",
            id="token",
        ),
    ],
)
def test_an_index_outside_a_table_is_refused_by_name_on_the_cpu(
    plan: Any, changes: dict[str, Any], name: str
) -> None:
    with pytest.raises(ValueError, match=f"^{name}: .*outside"):
        plan(**{"verify_capacity": 8, **changes})


def test_lengths_of_tokens_that_are_not_given_check_nothing(plan: Any) -> None:
    verify_plan, _ = plan(req_to_verify_expected_tokens_valid_lens=torch.tensor([3]))
    assert verify_plan.verify_slot_indices.tolist() == [4, 5, 6, 0]
    assert verify_plan.verify_expected_tokens.tolist() == [-1, -1, -1, -1]


def test_an_empty_batch_plans_nothing(plan: Any) -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    verify_plan, write_plan = plan(
        req_pool_indices=nothing, prefix_lens=nothing, extend_seq_lens=nothing
    )
    assert verify_plan.verify_num_valid.tolist() == [0]
    assert write_plan.write_num_valid_reqs.tolist() == [0]


@pytest.mark.parametrize("name", ["verify_plan_out", "write_plan_out"])
def test_what_is_no_plan_is_refused_by_name(name: str) -> None:
    arguments: dict[str, Any] = {
        "verify_plan_out": launch.VerifyPlan.allocate(verify_capacity=4, device="cpu"),
        "write_plan_out": launch.WritePlan.allocate(write_req_capacity=2, device="cpu"),
        "req_pool_indices": torch.tensor([1]),
        "prefix_lens": torch.tensor([3]),
        "extend_seq_lens": torch.tensor([1]),
        "req_to_token": REQ_TO_TOKEN,
        "swa_window_size": 0,
        "full_to_swa_index_mapping": None,
        "verify_capacity": 4,
    }
    with pytest.raises(ValueError, match=f"^{name}: is a NoneType"):
        launch.launch_canary_plan_kernels(**{**arguments, name: None})
