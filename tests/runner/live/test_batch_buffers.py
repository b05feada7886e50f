"""Batches in tensors that stay."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from kvaudit.constants import SKIP_WRITE
from kvaudit.runner.live.batch_buffers import BatchBuffers
from kvaudit.runner.live.step_inputs import CanaryBatch

TABLE = torch.zeros((9, 4), dtype=torch.int32)
CPU = torch.device("cpu")


def _batch(num_requests: int, num_tokens: int, **changes: Any) -> CanaryBatch:
    requests, tokens = torch.arange(1, num_requests + 1), torch.arange(10, 10 + num_tokens)
    given = {
        "req_pool_indices": requests,
        "prefix_lens": requests + 20,
        "extend_seq_lens": requests + 40,
        "req_to_token": TABLE,
        "input_ids": tokens,
        "positions": tokens + 20,
        "out_cache_loc": tokens + 40,
    }
    return CanaryBatch(**{**given, **changes})


def _buffers() -> BatchBuffers:
    return BatchBuffers(max_requests=4, max_tokens=6, device=CPU)


def test_a_batch_comes_back_in_the_same_tensors_each_time_with_its_own_values() -> None:
    buffers = _buffers()
    first = buffers.loaded(_batch(2, 3))
    second = buffers.loaded(batch := _batch(3, 4))
    for field in fields(CanaryBatch):
        assert getattr(first, field.name) is getattr(second, field.name)
    for name in ("req_pool_indices", "prefix_lens", "extend_seq_lens"):
        assert getattr(second, name)[:3].tolist() == getattr(batch, name).tolist()
    for name in ("input_ids", "positions", "out_cache_loc"):
        assert getattr(second, name)[:4].tolist() == getattr(batch, name).tolist()
    assert second.req_to_token is TABLE


@pytest.mark.parametrize("sizes", [[(4, 6), (1, 1)], [(2, 2), (4, 6), (3, 3), (1, 2), (2, 5)]])
def test_what_a_larger_batch_left_is_padding_again(sizes: list[tuple[int, int]]) -> None:
    buffers = _buffers()
    for num_requests, num_tokens in sizes:
        loaded = buffers.loaded(_batch(num_requests, num_tokens))
    assert loaded.req_pool_indices[num_requests:].tolist() == [0] * (4 - num_requests)
    assert loaded.out_cache_loc[num_tokens:].tolist() == [SKIP_WRITE] * (6 - num_tokens)


@pytest.mark.parametrize(("num_requests", "num_tokens"), [(5, 1), (1, 7)])
def test_a_batch_that_does_not_fit_comes_back_as_it_is(num_requests: int, num_tokens: int) -> None:
    batch = _batch(num_requests, num_tokens)
    assert _buffers().loaded(batch) is batch


def test_optional_columns_are_buffered_where_they_are_given() -> None:
    tokens = torch.tensor([7, 8])
    batch = _batch(
        1,
        2,
        expected_input_tokens=tokens,
        swa_out_cache_loc=tokens,
        req_to_verify_expected_tokens_valid_lens=torch.tensor([3]),
    )
    loaded = _buffers().loaded(batch)
    assert loaded.expected_input_tokens[:2].tolist() == [7, 8]
    assert loaded.swa_out_cache_loc.tolist() == [7, 8] + [SKIP_WRITE] * 4
    assert loaded.req_to_verify_expected_tokens_valid_lens.shape == (4,)
    assert loaded.expected_input_positions is None


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("req_pool_indices", torch.tensor([1], dtype=torch.int32)),
        ("prefix_lens", torch.tensor([1, 2])),
        ("input_ids", torch.tensor([[1, 2]])),
        ("positions", torch.tensor([0.0, 1.0])),
        ("out_cache_loc", torch.tensor([1])),
    ],
)
def test_what_the_launches_would_refuse_is_refused_by_the_same_name(
    name: str, tensor: torch.Tensor
) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        _buffers().loaded(replace(_batch(1, 2), **{name: tensor}))
