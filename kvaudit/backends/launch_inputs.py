"""What a write or plan launch is given besides its plan, and what is refused of it."""

from __future__ import annotations

from dataclasses import dataclass

from kvaudit.backends.launch_tensor_checks import (
    ANY_LENGTH,
    check_flag,
    check_int64,
    check_tensor,
)
from kvaudit.backends.torch_module import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenTokens:
    """The entries of a write launch.

    Fields:
        input_ids: token of each entry, shape [num_tokens], int64.
        positions: position of each entry, shape [num_tokens], int64.
        out_cache_loc: slot of each entry, shape [num_tokens], int64; negative = not written.
        enable_write_input_assert: whether the entries are compared with the expected pair.
        expected_input_tokens: shape [num_tokens], int64; None without the assert.
        expected_input_positions: shape [num_tokens], int64; None without the assert.
    """

    input_ids: torch.Tensor
    positions: torch.Tensor
    out_cache_loc: torch.Tensor
    enable_write_input_assert: bool
    expected_input_tokens: torch.Tensor | None
    expected_input_positions: torch.Tensor | None

    def check(self, *, device: torch.device) -> None:
        """Refuse arrays of different lengths, and an input assert that is only half asked for.

        Raises:
            ValueError: naming the tensor.
        """
        check_tensor(self.input_ids, "input_ids", torch.int64, shape=(ANY_LENGTH,), device=device)
        shape = self.input_ids.shape
        check_tensor(self.positions, "positions", torch.int64, shape=shape, device=device)
        check_tensor(self.out_cache_loc, "out_cache_loc", torch.int64, shape=shape, device=device)
        check_flag(self.enable_write_input_assert, "enable_write_input_assert")
        for name in ("expected_input_tokens", "expected_input_positions"):
            expected = getattr(self, name)
            if self.enable_write_input_assert and expected is None:
                raise ValueError(f"{name}: is None, but enable_write_input_assert is set")
            if not self.enable_write_input_assert and expected is not None:
                raise ValueError(f"{name}: is given, but enable_write_input_assert is not set")
            if expected is not None:
                check_tensor(expected, name, torch.int64, shape=shape, device=device)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedBatch:
    """The batch that a plan launch flattens.

    Fields:
        req_pool_indices: row of each request, shape [bs], int64; 0 = padding.
        prefix_lens: tokens already cached, shape [bs], int64.
        extend_seq_lens: tokens to write, shape [bs], int64.
        req_to_token: slots by request row and position, shape [num_reqs, max_len], int32.
        swa_window_size: window in tokens; 0 = none.
        full_to_swa_index_mapping: shape [num_full_slots], int64; None = slots stay as they are.
        req_to_verify_expected_tokens: shape [num_reqs, max_tokens], int32; None = unchecked.
        req_to_verify_expected_tokens_valid_lens: known tokens of each request, shape [bs], int64.
        kv_token_id_vs_position_offset: position p holds token p + offset.
    """

    req_pool_indices: torch.Tensor
    prefix_lens: torch.Tensor
    extend_seq_lens: torch.Tensor
    req_to_token: torch.Tensor
    swa_window_size: int
    full_to_swa_index_mapping: torch.Tensor | None
    req_to_verify_expected_tokens: torch.Tensor | None
    req_to_verify_expected_tokens_valid_lens: torch.Tensor | None
    kv_token_id_vs_position_offset: int

    def check(self, *, write_req_capacity: int, device: torch.device) -> None:
        """Refuse columns of different lengths, a batch that is too large, and half-given options.

        Raises:
            ValueError: naming the tensor or the argument.
        """
        indices = self.req_pool_indices
        check_tensor(indices, "req_pool_indices", torch.int64, shape=(ANY_LENGTH,), device=device)
        shape = indices.shape
        check_tensor(self.prefix_lens, "prefix_lens", torch.int64, shape=shape, device=device)
        check_tensor(
            self.extend_seq_lens, "extend_seq_lens", torch.int64, shape=shape, device=device
        )
        table_shape = (ANY_LENGTH, ANY_LENGTH)
        check_tensor(
            self.req_to_token, "req_to_token", torch.int32, shape=table_shape, device=device
        )
        if shape[0] > write_req_capacity:
            raise ValueError(
                f"req_pool_indices: {shape[0]} requests, but write_seed_slot_indices hold "
                f"{write_req_capacity}"
            )
        self._check_window(device)
        self._check_expected_tokens(device)

    def _check_window(self, device: torch.device) -> None:
        name = "full_to_swa_index_mapping"
        mapping = self.full_to_swa_index_mapping
        check_int64(self.swa_window_size, "swa_window_size")
        if self.swa_window_size < 0:
            raise ValueError(f"swa_window_size: is {self.swa_window_size}, which is negative")
        if self.swa_window_size and mapping is None:
            raise ValueError(f"{name}: is None, but swa_window_size is {self.swa_window_size}")
        if mapping is not None:
            check_tensor(mapping, name, torch.int64, shape=(ANY_LENGTH,), device=device)
            # The kernels take an empty map for none.
            if mapping.shape[0] == 0:
                raise ValueError(f"{name}: is empty; give None where slots stay as they are")

    def _check_expected_tokens(self, device: torch.device) -> None:
        name = "req_to_verify_expected_tokens"
        tokens = self.req_to_verify_expected_tokens
        valid_lens = self.req_to_verify_expected_tokens_valid_lens
        check_int64(self.kv_token_id_vs_position_offset, "kv_token_id_vs_position_offset")
        if tokens is not None:
            check_tensor(tokens, name, torch.int32, shape=(ANY_LENGTH, ANY_LENGTH), device=device)
            if valid_lens is None:
                raise ValueError(f"{name}_valid_lens: is None, but {name} is given")
        if valid_lens is not None:
            shape = self.req_pool_indices.shape
            check_tensor(valid_lens, f"{name}_valid_lens", torch.int64, shape=shape, device=device)
