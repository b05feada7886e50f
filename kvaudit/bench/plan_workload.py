"""`plan` of a batch of long prefixes of a full-attention pool, with the tokens to expect."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends import memory
from kvaudit.bench.machine import Direction, Machine
from kvaudit.bench.options import Op
from kvaudit.bench.pool import BenchPool
from kvaudit.bench.workload import (
    MIN_SAMPLE,
    UNWRITTEN,
    HostArrays,
    PlacedArrays,
    Sample,
    sampled_runs,
)

# What an entry writes: slot, token, position and predecessor.
_ENTRY_BYTES = 4 * 8
_ENTRY_STEPS = 12
_MAX_LEN = 8 << 10
_ENTRY_COLUMNS = {
    "verify_slot_indices": np.int64,
    "verify_expected_tokens": np.uint64,
    "verify_expected_positions": np.uint64,
    "verify_prev_slot_indices": np.int64,
}
_FLAGS = ("verify_num_valid", "enable")


class PlanWorkload:
    """A decode step: a row a request, each with a prefix to check and a token to write.

    Args:
        pool: the pool whose slots fill the tables.
        prefix_lens: of each batch row, shape [bs], int64.
        req_to_token: slots, shape [bs + 1, max_len], int32.
        token_pool: tokens, shape [bs + 1, max_len], int32.
        first_row: the row of the tables that the first batch row names.
    """

    op = Op.PLAN
    real_kv = None
    direction: Direction = "write"
    bytes_per_entry = _ENTRY_BYTES

    def __init__(
        self,
        pool: BenchPool,
        *,
        prefix_lens: NDArray[np.int64],
        req_to_token: NDArray[np.int32],
        token_pool: NDArray[np.int32],
        first_row: int,
    ) -> None:
        self._pool = pool
        self._prefix_lens = prefix_lens
        self._tables = (req_to_token, token_pool)
        self._first_row = first_row
        self.num_entries = int(prefix_lens.sum())

    @classmethod
    def of(cls, pool: BenchPool) -> PlanWorkload:
        """Prefixes of 4k to 8k tokens, the last one shorter, with an entry for each of the pool's."""
        generator = np.random.default_rng(pool.seed)
        shortest = _MAX_LEN // 2
        lens = generator.integers(shortest, _MAX_LEN, -(-pool.num_entries // shortest))
        ends = np.minimum(np.cumsum(lens), pool.num_entries)
        lens = np.diff(ends[: np.searchsorted(ends, pool.num_entries) + 1], prepend=0)
        starts = np.cumsum(lens) - lens
        # Row 0 of the tables is that of padding requests.
        columns = starts[:, None] + np.arange(_MAX_LEN)
        held = np.minimum(columns, pool.num_entries - 1)
        tables = [
            np.concatenate([np.zeros((1, _MAX_LEN), np.int32), source[held].astype(np.int32)])
            for source in (pool.slots, pool.tokens)
        ]
        return cls(
            pool, prefix_lens=lens, req_to_token=tables[0], token_pool=tables[1], first_row=1
        )

    def inputs(self) -> dict[str, NDArray[Any]]:
        """What a launch reads, by name."""
        num_rows = len(self._prefix_lens)
        return {
            "req_pool_indices": np.arange(self._first_row, self._first_row + num_rows),
            "prefix_lens": self._prefix_lens,
            "extend_seq_lens": np.ones(num_rows, dtype=np.int64),
            "req_to_token": self._tables[0],
            "no_map": memory.absent(np.int64),
            "token_pool": self._tables[1],
        }

    def outputs(self) -> dict[str, NDArray[Any]]:
        """A fresh plan that has room for exactly the entries."""
        num_rows = len(self._prefix_lens)
        columns = {
            name: np.full(self.num_entries, UNWRITTEN, dtype)
            for name, dtype in _ENTRY_COLUMNS.items()
        }
        flags = {name: memory.single(0, np.int32) for name in _FLAGS}
        return {
            **columns,
            **flags,
            "write_offsets": np.full(num_rows + 1, UNWRITTEN, dtype=np.int64),
            "write_seed_slot_indices": np.full(num_rows, UNWRITTEN, dtype=np.int64),
            "write_num_valid_reqs": memory.single(0, np.int32),
        }

    def launch(self, machine: Machine, arrays: PlacedArrays) -> None:
        """Enqueue the launch."""
        inputs = ("req_pool_indices", "prefix_lens", "extend_seq_lens", "req_to_token", "no_map")
        outputs = ("write_offsets", "write_seed_slot_indices", "write_num_valid_reqs")
        machine.kernels.launch_plan(
            *(arrays[name] for name in (*inputs, "token_pool", "prefix_lens")),
            *(arrays[name] for name in (*_ENTRY_COLUMNS, *_FLAGS, *outputs)),
            0,
            0,
        )

    def engine_launch(self, arrays: PlacedArrays) -> None:
        """Enqueue the engine-shaped launch of the verify half."""
        from kvaudit.bench.kernels.engine_launch import launch_engine_plan

        inputs = ("prefix_lens", "write_seed_slot_indices", "req_pool_indices", "req_to_token")
        launch_engine_plan(*(arrays[name] for name in (*inputs, "token_pool", *_ENTRY_COLUMNS)))

    def observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """The whole plan."""
        return dict(outputs)

    def engine_observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """The entries."""
        return {name: outputs[name] for name in _ENTRY_COLUMNS}

    def sample(self) -> Sample:
        """Some neighbouring rows of the same tables."""
        most = len(
            sampled_runs(self.num_entries, steps_per_entry=_ENTRY_STEPS, seed=self._pool.seed)
        )
        num_rows = min(len(self._prefix_lens), max(1, most // MIN_SAMPLE))
        generator = np.random.default_rng(self._pool.seed)
        first = int(generator.integers(0, len(self._prefix_lens) - num_rows + 1))
        ends = np.append(0, np.cumsum(self._prefix_lens))
        rows, entries = slice(first, first + num_rows), slice(ends[first], ends[first + num_rows])
        part = PlanWorkload(
            self._pool,
            prefix_lens=self._prefix_lens[rows],
            req_to_token=self._tables[0],
            token_pool=self._tables[1],
            first_row=self._first_row + first,
        )

        def expected(outputs: HostArrays) -> dict[str, NDArray[Any]]:
            seeds = outputs["write_seed_slot_indices"][rows]
            planned = {name: outputs[name][entries] for name in _ENTRY_COLUMNS}
            return {**planned, "write_seed_slot_indices": seeds}

        return Sample(workload=part, expected=expected)
