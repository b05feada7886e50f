"""A batch in tensors that stay, so that the launches of its step can be prepared once."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvaudit.backends.launch_tensor_checks import ANY_LENGTH, check_tensor
from kvaudit.backends.torch_module import torch
from kvaudit.constants import PADDING_REQUEST, SKIP_WRITE
from kvaudit.runner.live.step_inputs import CanaryBatch

# Columns with a value a request, and what a request that is none has; None = anything.
_REQUEST_COLUMNS: Final = {
    "req_pool_indices": PADDING_REQUEST,
    "prefix_lens": None,
    "extend_seq_lens": None,
    "req_to_verify_expected_tokens_valid_lens": None,
}
# Columns with a value a token. No write plan reaches past a batch's tokens, but their slots are
# hashed wherever they are.
_TOKEN_COLUMNS: Final = {
    "input_ids": None,
    "positions": None,
    "out_cache_loc": SKIP_WRITE,
    "swa_out_cache_loc": SKIP_WRITE,
    "expected_input_tokens": None,
    "expected_input_positions": None,
}


class BatchBuffers:
    """Buffers of a fixed size that batches are copied to, behind which they are padded.

    Args:
        max_requests: requests of the largest batch that fits.
        max_tokens: tokens of the largest batch that fits.
        device: where batches are.
    """

    def __init__(self, *, max_requests: int, max_tokens: int, device: torch.device) -> None:
        self._requests = _Columns(_REQUEST_COLUMNS, capacity=max_requests, device=device)
        self._tokens = _Columns(_TOKEN_COLUMNS, capacity=max_tokens, device=device)

    def loaded(self, batch: CanaryBatch) -> CanaryBatch:
        """The batch in the buffers; itself where it does not fit. Tables stay where they are.

        Raises:
            ValueError: a tensor cannot be used; the message names it.
        """
        requests = self._requests.loaded(batch, lead="req_pool_indices")
        tokens = self._tokens.loaded(batch, lead="input_ids") if requests is not None else None
        if requests is None or tokens is None:
            return batch
        return replace(batch, **requests, **tokens)


class _Columns:
    """Columns of one length.

    Args:
        padding: the columns, and what stands behind their values.
        capacity: the length.
        device: where they are.
    """

    def __init__(
        self, padding: dict[str, int | None], *, capacity: int, device: torch.device
    ) -> None:
        self._padding = padding
        self._capacity = capacity
        self._device = device
        # An engine may make them in inference mode, whose tensors cannot be changed outside of it.
        with torch.inference_mode(mode=False):
            self._buffers = {
                name: torch.full((capacity,), value or 0, dtype=torch.int64, device=device)
                for name, value in padding.items()
            }
        self._num_used = dict.fromkeys(padding, 0)

    def loaded(self, batch: CanaryBatch, *, lead: str) -> dict[str, torch.Tensor] | None:
        """The columns that a batch has, copied; None where they do not fit.

        Raises:
            ValueError: a column is of another length than the leading one, dtype or device.
        """
        check_tensor(
            getattr(batch, lead), lead, torch.int64, shape=(ANY_LENGTH,), device=self._device
        )
        length = len(getattr(batch, lead))
        if length > self._capacity:
            return None
        given = {
            name: tensor for name in self._buffers if (tensor := getattr(batch, name)) is not None
        }
        for name, tensor in given.items():
            check_tensor(tensor, name, torch.int64, shape=(length,), device=self._device)
            self._load(name, tensor)
        return {name: self._buffers[name] for name in given}

    def _load(self, name: str, tensor: torch.Tensor) -> None:
        buffer, length = self._buffers[name], len(tensor)
        buffer[:length].copy_(tensor)
        padding = self._padding[name]
        if padding is not None and length < self._num_used[name]:
            buffer[length : self._num_used[name]].fill_(padding)
        self._num_used[name] = length
