"""What all backends share: the port's arrays in, the kernels of one implementation, arrays out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends import memory
from kvaudit.backends.kernel_set import KernelSet
from kvaudit.constants import RECORD_WORDS, WORD_BYTES, LaunchTag
from kvaudit.core.backend import Backend, FoldJob
from kvaudit.core.kv_column import KvColumn
from kvaudit.kernels.array_forms import KernelArray, frozen, read_only

_WARM_UP_SLOTS = 2


class KernelBackend(ABC):
    """The Backend port (`core.backend`) over one implementation's kernels in host memory.

    A device overrides the hooks: how arrays reach it, how they return, and what it is to be there.
    Its `launch_write` is the host's: a device leaves requests of one launch unordered, and chains
    go on from each other.
    """

    name: str
    device: str
    max_callers = 1

    def __init__(self, kernels: KernelSet) -> None:
        self._kernels = kernels

    def _to_kernels(self, array: NDArray[Any]) -> KernelArray:
        """The array where the kernels read and write it."""
        return array

    def _from_kernels(self, array: KernelArray) -> NDArray[Any]:
        """What the kernels wrote, in host memory."""
        host: NDArray[Any] = array
        return host

    def _records_to_kernels(self, records: NDArray[np.int64]) -> KernelArray:
        """Canary records where the kernels read them."""
        return self._to_kernels(memory.hashed_input(records))

    def _on_device(self) -> AbstractContextManager[None]:
        """A context for one call's arrays and launches; foreign errors leave it as ours."""
        return nullcontext()

    @property
    def device_bytes(self) -> int:
        """No device's memory; see `core.backend`."""
        return 0

    def spread(self, num_jobs: int) -> Sequence[Backend]:  # noqa: ARG002 - the port's
        """This backend alone; see `core.backend`."""
        return [self]

    def needs_compilation(self, *, writes: bool = False) -> bool:  # noqa: ARG002 - the port's
        """Whether `compile_kernels` has anything to compile; see `core.backend`."""
        return False

    def keeps_code(self) -> bool:
        """Whether what `compile_kernels` compiles is there for later runs; see `core.backend`."""
        return True

    def compile_kernels(self, *, writes: bool = False) -> None:
        """Run every kernel once, on two slots of which one is wrong; see `core.backend`."""
        slots = np.arange(_WARM_UP_SLOTS, dtype=np.int64)
        records = np.zeros((_WARM_UP_SLOTS, RECORD_WORDS), dtype=np.int64)
        # Pairs of words, single ones and ragged ones are different kernels on some backend.
        for row_bytes in (2 * WORD_BYTES, WORD_BYTES, WORD_BYTES - 1):
            data = np.zeros((_WARM_UP_SLOTS, row_bytes), dtype=np.uint8)
            self.combine([self._folded(frozen(data), slots)])
        self.slot_hashes(records, slots)
        self.verify(
            records=records,
            slot_indices=slots,
            expected_tokens=slots,
            expected_positions=slots,
            prev_slot_indices=slots,
            real_kv_hashes=None,
            tag=LaunchTag.HEAD_K_FULL,
            check_expected_token=True,
        )
        if writes:
            self.write_records(
                records=records,
                write_offsets=slots,
                write_seed_slot_indices=slots[:1],
                input_ids=slots,
                positions=slots,
                out_cache_loc=slots,
                real_kv_hashes=slots.view(np.uint64),
                tag=LaunchTag.TAIL_K_FULL,
            )

    def _folded(self, data: NDArray[np.uint8], slots: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Source hash of slots of one row each, by the kernel that such rows take."""
        with self._on_device():
            hashes = self._to_kernels(np.zeros(slots.shape, dtype=np.uint64))
            self._kernels.launch_fold(
                self._to_kernels(data),
                self._to_kernels(read_only(slots)),
                hashes,
                1,
                data.shape[1],
                data.shape[1],
            )
            return self._from_kernels(hashes)

    @abstractmethod
    def fold(
        self, column: KvColumn, rows: NDArray[np.int64], *, read_bytes: int | None = None
    ) -> NDArray[np.uint64]:
        """Source hash of each of the rows of a column; see `core.backend`."""

    def folds(self, jobs: Iterable[FoldJob]) -> Iterator[NDArray[np.uint64]]:
        """What `fold` gives for each job, when it is asked for; see `core.backend`."""
        return (self.fold(job.column, job.rows, read_bytes=job.read_bytes) for job in jobs)

    def combine(
        self,
        source_hashes: Sequence[NDArray[np.uint64]],
        *,
        running: NDArray[np.uint64] | None = None,
    ) -> NDArray[np.uint64]:
        """real_kv_hash of each slot; see `core.backend`."""
        if running is None:
            running = np.zeros(source_hashes[0].shape, dtype=np.uint64)
        with self._on_device():
            real_kv_hashes = self._to_kernels(running)
            for hashes in source_hashes:
                source = self._to_kernels(memory.hashed_input(hashes))
                self._kernels.launch_combine(source, real_kv_hashes)
            return self._from_kernels(real_kv_hashes)

    def slot_hashes(
        self, records: NDArray[np.int64], slot_indices: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """slot_hash of each slot; see `core.backend`."""
        with self._on_device():
            hashes = self._to_kernels(np.zeros(slot_indices.shape, dtype=np.uint64))
            self._kernels.launch_hash(
                self._records_to_kernels(records),
                self._to_kernels(read_only(slot_indices)),
                hashes,
            )
            return self._from_kernels(hashes)

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
        expected_hashes = (
            memory.absent(np.uint64)
            if real_kv_hashes is None
            else memory.hashed_input(real_kv_hashes)
        )
        inputs = (
            read_only(slot_indices),
            memory.hashed_input(expected_tokens),
            memory.hashed_input(expected_positions),
            read_only(prev_slot_indices),
            read_only(memory.single(len(slot_indices), np.int32)),
            read_only(memory.single(1, np.int32)),
            expected_hashes,
        )
        unread = (
            memory.no_ring(),
            memory.single(0, np.int32),
            memory.single(0, np.int64),
            memory.single(0, np.int64),
        )
        with self._on_device():
            reason_bits = self._to_kernels(np.zeros(slot_indices.shape, dtype=np.uint32))
            self._kernels.launch_verify(
                self._records_to_kernels(records),
                *(self._to_kernels(array) for array in inputs),
                reason_bits,
                *(self._to_kernels(array) for array in unread),
                int(tag),
                check_expected_token,
            )
            return self._from_kernels(reason_bits)

    def write_records(
        self,
        *,
        records: NDArray[np.int64],
        write_offsets: NDArray[np.int64],
        write_seed_slot_indices: NDArray[np.int64],
        input_ids: NDArray[np.int64],
        positions: NDArray[np.int64],
        out_cache_loc: NDArray[np.int64],
        real_kv_hashes: NDArray[np.uint64],
        tag: LaunchTag,
    ) -> None:
        """Stamp chains in their order, in host memory whatever folds; see `core.backend`."""
        self._kernels.launch_write(
            read_only(write_offsets),
            read_only(write_seed_slot_indices),
            read_only(memory.single(len(write_seed_slot_indices), np.int32)),
            memory.hashed_input(input_ids),
            memory.hashed_input(positions),
            read_only(out_cache_loc),
            memory.absent(np.uint64),
            memory.absent(np.uint64),
            memory.hashed_input(real_kv_hashes),
            read_only(memory.single(0, np.int32)),
            memory.hashed_output(records),
            memory.no_ring(),
            memory.single(0, np.int32),
            memory.single(0, np.int64),
            memory.single(0, np.int64),
            int(tag),
        )
