"""What the backends in host memory share: numpy arrays in, the kernels of one implementation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends import memory
from kvaudit.constants import LaunchTag
from kvaudit.core.kv_column import KvColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKernels:
    """The launchers of one implementation, as the contracts in `kernels` describe them."""

    launch_combine: Callable[..., None]
    launch_hash: Callable[..., None]
    launch_verify: Callable[..., None]


class HostBackend(ABC):
    """The part of the Backend port (`core.backend`) that is the same for all host kernels."""

    def __init__(self, kernels: HostKernels) -> None:
        self._kernels = kernels

    @abstractmethod
    def fold(self, column: KvColumn, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Source hash of each of the rows of a column; see `core.backend`."""

    def combine(self, source_hashes: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
        """real_kv_hash of each slot; see `core.backend`."""
        real_kv_hashes = np.zeros(source_hashes[0].shape, dtype=np.uint64)
        for hashes in source_hashes:
            self._kernels.launch_combine(memory.hashed_input(hashes), real_kv_hashes)
        return real_kv_hashes

    def slot_hashes(
        self, records: NDArray[np.int64], slot_indices: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """slot_hash of each slot; see `core.backend`."""
        hashes = np.zeros(slot_indices.shape, dtype=np.uint64)
        self._kernels.launch_hash(
            memory.hashed_input(records), memory.signed_input(slot_indices), hashes
        )
        return hashes

    def verify(
        self,
        *,
        records: NDArray[np.int64],
        slot_indices: NDArray[np.int64],
        expected_tokens: NDArray[np.int64],
        expected_positions: NDArray[np.int64],
        prev_slot_indices: NDArray[np.int64],
        real_kv_hashes: NDArray[np.uint64] | None,
        tag: LaunchTag,
        check_expected_token: bool,
    ) -> NDArray[np.uint32]:
        """Reason bits of each entry; see `core.backend`."""
        reason_bits = np.zeros(slot_indices.shape, dtype=np.uint32)
        self._kernels.launch_verify(
            memory.hashed_input(records),
            memory.signed_input(slot_indices),
            memory.hashed_input(expected_tokens),
            memory.hashed_input(expected_positions),
            memory.signed_input(prev_slot_indices),
            memory.signed_input(memory.single(len(slot_indices), np.int32)),
            memory.signed_input(memory.single(1, np.int32)),
            memory.absent(np.uint64)
            if real_kv_hashes is None
            else memory.hashed_input(real_kv_hashes),
            reason_bits,
            memory.no_ring(),
            memory.single(0, np.int32),
            memory.single(0, np.int64),
            memory.single(0, np.int64),
            int(tag),
            check_expected_token,
        )
        return reason_bits
