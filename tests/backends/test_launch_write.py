from __future__ import annotations

from typing import Any

import pytest
import torch

from kvaudit.backends import launch
from kvaudit.constants import CHAIN_ANCHOR, MASK64
from tests.helpers.torch_launches import make_context, stamp_all, state_of

WRITERS = [
    pytest.param(launch.launch_canary_write_kernel_torch_reference, id="reference"),
    pytest.param(launch.launch_canary_write_kernel, id="cpu"),
]


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Any:
    return request.param


def entries(*slots: int) -> dict[str, torch.Tensor]:
    """Tokens 11, 12, .. at positions 0, 1, .. on the slots."""
    return {
        "input_ids": torch.arange(11, 11 + len(slots)),
        "positions": torch.arange(len(slots)),
        "out_cache_loc": torch.tensor(slots, dtype=torch.int64),
    }


def one_request(num_entries: int, seed: int = -1) -> launch.WritePlan:
    return launch.WritePlan(
        write_offsets=torch.tensor([0, num_entries]),
        write_seed_slot_indices=torch.tensor([seed]),
        write_num_valid_reqs=torch.ones(1, dtype=torch.int32),
    )


def test_a_chain_is_stored_as_the_design_counts_it(write: Any) -> None:
    """The prev_hash values are those of fixture F in CASES.md."""
    context = make_context()
    write(
        context=context,
        plan=one_request(4),
        enable_write_input_assert=False,
        **entries(2, 3, 4, 5),
    )
    records = state_of(context)["canary_buf"]
    assert records[2:6, 0].tolist() == [11, 12, 13, 14]
    assert records[2:6, 1].tolist() == [0, 1, 2, 3]
    assert [value & MASK64 for value in records[2:6, 2].tolist()] == [
        CHAIN_ANCHOR,
        0x89CD2ABFBEBC0649,
        0x13F5BAAFE6EF85D6,
        0x86BD2A2B9B320591,
    ]
    assert context.slot_run_counter.tolist() == [4]
    assert not records[6:].any()


def test_a_negative_slot_is_skipped_and_one_past_the_end_is_a_row(write: Any) -> None:
    context = make_context()
    write(
        context=context,
        plan=one_request(3),
        enable_write_input_assert=False,
        **entries(2, -1, 8),
    )
    assert context.slot_run_counter.tolist() == [1]
    assert context.violation_write_index.tolist() == [1]
    assert context.violation_ring[0, [1, 7]].tolist() == [8, launch.FailReason.SLOT_OUT_OF_RANGE]


def test_the_expected_pair_is_compared_when_asked(write: Any) -> None:
    context = make_context()
    tokens = entries(2, 3)
    write(
        context=context,
        plan=one_request(2),
        enable_write_input_assert=True,
        expected_input_tokens=torch.tensor([11, 99]),
        expected_input_positions=tokens["positions"] + 0,
        **tokens,
    )
    assert context.violation_write_index.tolist() == [1]
    assert context.violation_ring[0, [1, 3, 4, 7]].tolist() == [
        3,
        12,
        99,
        launch.FailReason.WRITE_TOKEN_MISMATCH,
    ]


def test_offsets_past_the_tokens_are_clamped(write: Any) -> None:
    context = make_context()
    write(
        context=context,
        plan=one_request(1000),
        enable_write_input_assert=False,
        **entries(2, 3),
    )
    assert context.slot_run_counter.tolist() == [2]


def test_a_wide_row_keeps_what_lies_behind_its_record(write: Any) -> None:
    context = make_context(canary_buf=torch.full((8, 48), 7, dtype=torch.uint8))
    stamp_all(context, write)
    assert (context.canary_buf[:, 32:] == 7).all()
    assert not (context.canary_buf[1:, :32] == 7).all()


def test_no_tokens_is_a_launch_that_writes_nothing(write: Any) -> None:
    context = make_context()
    write(context=context, plan=one_request(0), enable_write_input_assert=False, **entries())
    assert context.kernel_run_counter.tolist() == [1]
    assert not context.canary_buf.any()
