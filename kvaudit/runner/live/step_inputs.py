"""What a canary is given of a step: an engine's batch, or launches that are planned already."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kvaudit.backends.launch import VerifyPlan, WritePlan
from kvaudit.backends.torch_module import torch
from kvaudit.constants import LaunchTag
from kvaudit.core.launch_tag import PoolKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryBatch:
    """A forward's batch as the plan launch takes it, on the canary's device.

    Fields:
        req_pool_indices: row of each request, shape [bs], int64; 0 = padding.
        prefix_lens: tokens already cached, shape [bs], int64.
        extend_seq_lens: tokens that the forward writes, shape [bs], int64.
        req_to_token: slots by request row and position, shape [num_reqs, max_len], int32.
        input_ids: token of each written entry, shape [num_tokens], int64.
        positions: its position, shape [num_tokens], int64.
        out_cache_loc: its slot, shape [num_tokens], int64; negative = not written.
        swa_out_cache_loc: its slot in the window pool; None without such a pool.
        full_to_swa_index_mapping: shape [num_full_slots], int64; None without a window pool.
        req_to_verify_expected_tokens: tokens by request row, shape [num_reqs, max_tokens], int32;
            None without the token assert.
        req_to_verify_expected_tokens_valid_lens: known tokens of each request, shape [bs], int64.
        expected_input_tokens: shape [num_tokens], int64; None without the input assert.
        expected_input_positions: shape [num_tokens], int64; None without the input assert.
    """

    req_pool_indices: torch.Tensor
    prefix_lens: torch.Tensor
    extend_seq_lens: torch.Tensor
    req_to_token: torch.Tensor
    input_ids: torch.Tensor
    positions: torch.Tensor
    out_cache_loc: torch.Tensor
    swa_out_cache_loc: torch.Tensor | None = None
    full_to_swa_index_mapping: torch.Tensor | None = None
    req_to_verify_expected_tokens: torch.Tensor | None = None
    req_to_verify_expected_tokens_valid_lens: torch.Tensor | None = None
    expected_input_tokens: torch.Tensor | None = None
    expected_input_positions: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenEntries:
    """What the write launches of a step stamp in one pool.

    Fields:
        plan: requests, entries and seeds.
        input_ids: token of each entry, shape [num_tokens], int64.
        positions: its position, shape [num_tokens], int64.
        out_cache_loc: its slot in this pool, shape [num_tokens], int64; negative = not written.
        expected_input_tokens: shape [num_tokens], int64; None = the entries are not compared.
        expected_input_positions: shape [num_tokens], int64; None = the entries are not compared.
    """

    plan: WritePlan
    input_ids: torch.Tensor
    positions: torch.Tensor
    out_cache_loc: torch.Tensor
    expected_input_tokens: torch.Tensor | None = None
    expected_input_positions: torch.Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedStep:
    """What the launches of one pool do in a step.

    Fields:
        pool_kind: the pool.
        verify_plan: the entries to verify; None = nothing is verified.
        write: what is stamped; None = nothing is.
        tags: the launches that run; None = all that the pool has.
    """

    pool_kind: PoolKind
    verify_plan: VerifyPlan | None
    write: WrittenEntries | None
    tags: Collection[LaunchTag] | None = None
