"""The port between the audit and whatever computes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.kv_column import KvColumn


class FoldJob(NamedTuple):
    """Rows of a column to fold.

    Fields:
        column: the KV bytes.
        rows: rows to fold, shape [n], int64, strictly ascending.
        read_bytes: leading bytes of a row to fold; None = the column's own read_bytes.
    """

    column: KvColumn
    rows: NDArray[np.int64]
    read_bytes: int | None = None


class Backend(Protocol):
    """Computes what the audit asks for. All arrays are numpy; a device copies inside.

    Slots of `records` are indices into it, as the kernels see them (DESIGN.md 3): 0 is padding, a
    negative predecessor is a chain head. One instance serves one run, on one thread
    but where `max_callers` allows more.
    """

    @property
    def name(self) -> str:
        """`cuda`, `cpu` or `reference`."""
        ...

    @property
    def device(self) -> str:
        """What it runs on, for people: a GPU's name, or the CPU with its threads."""
        ...

    @property
    def max_callers(self) -> int:
        """How many threads may be in `verify` at once."""
        ...

    @property
    def device_bytes(self) -> int:
        """Bytes of a device's own memory that it holds, which is the most it held; 0 on the host."""
        ...

    def spread(self, num_jobs: int) -> Sequence[Backend]:
        """Backends that run different jobs at the same time: this one, and one a further device.

        Args:
            num_jobs: at most so many, at least 1.
        """
        ...

    def needs_compilation(self, *, writes: bool = False) -> bool:
        """Whether `compile_kernels` has anything to compile on this machine; it takes seconds.

        Args:
            writes: whether records will be written; an audit writes none.
        """
        ...

    def keeps_code(self) -> bool:
        """Whether what is compiled is kept for later runs; False where no folder can be written."""
        ...

    def compile_kernels(self, *, writes: bool = False) -> None:
        """Compile every kernel that the methods below use, and keep the code if it can be kept.

        Args:
            writes: whether `write_records` is among those methods.
        """
        ...

    def fold(
        self, column: KvColumn, rows: NDArray[np.int64], *, read_bytes: int | None = None
    ) -> NDArray[np.uint64]:
        """Source hash of each of the rows of a column.

        Checks the digests of every chunk it reads in the same pass.

        Args:
            column: the KV bytes.
            rows: rows to fold, shape [n], int64, strictly ascending.
            read_bytes: leading bytes of a row to fold; None = the column's own read_bytes.

        Returns:
            shape [n], uint64.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        ...

    def folds(self, jobs: Iterable[FoldJob]) -> Iterator[NDArray[np.uint64]]:
        """What `fold` gives for each job, in their order; a device is at work on the next ones.

        Args:
            jobs: taken some time before their hashes are asked for.

        Raises:
            FileCorrupt: a chunk's digest differs, first that of the first such job.
        """
        ...

    def combine(
        self,
        source_hashes: Sequence[NDArray[np.uint64]],
        *,
        running: NDArray[np.uint64] | None = None,
    ) -> NDArray[np.uint64]:
        """real_kv_hash of each slot from its sources' hashes, in fold order; shape [n], uint64.

        Args:
            source_hashes: at least one array of shape [n], uint64.
            running: real_kv_hash of the sources before these, shape [n], uint64; None = there are
                none. It may be overwritten: only what is returned counts.
        """
        ...

    def slot_hashes(
        self, records: NDArray[np.int64], slot_indices: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """slot_hash of each slot, shape [n], uint64; CHAIN_ANCHOR for a negative one.

        Args:
            records: shape [num_slots, 4], int64.
            slot_indices: shape [n], int64, below num_slots.
        """
        ...

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
        """Reason bits of each entry, shape [n], uint32, in entry order.

        Args:
            records: shape [num_slots, 4], int64. A read-only array holds the same in every call.
            slot_indices: shape [n], int64.
            expected_tokens: shape [n], int64.
            expected_positions: shape [n], int64.
            prev_slot_indices: shape [n], int64.
            real_kv_hashes: expected combined hash of each entry, shape [n], uint64; None expects 0.
            tag: the launch tag.
            check_expected_token: whether tokens are judged.
        """
        ...

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
        """Stamp chains in their order: one may go on from what an earlier one wrote.

        Args:
            records: shape [num_slots, 4], int64, C-contiguous; written in place.
            write_offsets: where each chain's entries begin, and the last one's end, shape
                [num_chains + 1], int64.
            write_seed_slot_indices: slot that each chain goes on from, shape [num_chains], int64;
                NO_SEED at a head.
            input_ids: token of each entry, shape [n], int64.
            positions: position of each entry, shape [n], int64.
            out_cache_loc: slot of each entry, shape [n], int64; SKIP_WRITE leaves it out.
            real_kv_hashes: combined hash of each entry, shape [n], uint64.
            tag: the launch tag.
        """
        ...
