"""What every workload is: inputs, outputs, a launch, a sample for the reference, and what to compare.

Each plants a little damage in its sample: a proof that never sees a row proves nothing of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends import memory
from kvaudit.bench.machine import Direction, Machine
from kvaudit.bench.options import Op, RealKv
from kvaudit.constants import VIOLATION_FIELDS
from kvaudit.kernels.array_forms import KernelArray

HostArrays = Mapping[str, NDArray[Any]]
PlacedArrays = Mapping[str, KernelArray]

RING_CAPACITY: Final = 1 << 10
MAX_PLANTED: Final = 64
# What an output holds before a launch, so that an entry which no thread wrote is seen.
UNWRITTEN: Final = 0xA5A5_A5A5
# Entries of a sample that follow one another: an entry's damage shows at the next one too.
RUN_ENTRIES: Final = 64
# A sample has at least so many entries; then the reference's time, in steps of the mixer, bounds it.
MIN_SAMPLE: Final = 4 << 10
_REFERENCE_STEPS: Final = 3_000_000


class Workload(Protocol):
    """One operation on one input."""

    @property
    def op(self) -> Op:
        """The operation."""
        ...

    @property
    def real_kv(self) -> RealKv | None:
        """The mode; None where the operation has none."""
        ...

    @property
    def num_entries(self) -> int:
        """Entries of the input."""
        ...

    @property
    def bytes_per_entry(self) -> int:
        """Bytes that an entry must move."""
        ...

    @property
    def direction(self) -> Direction:
        """The bandwidth that this is a fraction of."""
        ...

    def inputs(self) -> dict[str, NDArray[Any]]:
        """What a launch reads, by name."""
        ...

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Fresh arrays that a launch reads and writes, by name."""
        ...

    def launch(self, machine: Machine, arrays: PlacedArrays) -> None:
        """Enqueue the launch on inputs and outputs where the machine has them."""
        ...

    def engine_launch(self, arrays: PlacedArrays) -> None:
        """Enqueue the engine-shaped launch, on a device."""
        ...

    def observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """What two launches of the input must agree in, in one order whatever the threads did."""
        ...

    def engine_observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """The part of it that the engine-shaped launch writes too."""
        ...

    def sample(self) -> Sample:
        """A part of this very input that the reference can judge."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """A part of an input, as a workload of its own.

    Fields:
        workload: the part.
        expected: from the outputs of the whole input, what `observed` must be for the part.
    """

    workload: Workload
    expected: Callable[[HostArrays], dict[str, NDArray[Any]]]


def sampled_runs(num_entries: int, *, steps_per_entry: int, seed: int) -> NDArray[np.int64]:
    """Entries that the reference judges: all, or runs of them at random places; ascending."""
    most = max(MIN_SAMPLE, _REFERENCE_STEPS // steps_per_entry)
    if num_entries <= most:
        return np.arange(num_entries, dtype=np.int64)
    generator = np.random.default_rng(seed)
    runs = generator.choice(num_entries // RUN_ENTRIES, most // RUN_ENTRIES, replace=False)
    starts = np.sort(runs.astype(np.int64)) * RUN_ENTRIES
    return (starts[:, None] + np.arange(RUN_ENTRIES)).ravel()


def planted(sampled: NDArray[np.int64]) -> NDArray[np.int64]:
    """Entries to damage: one in the middle of each of some runs, so that the sample has the next."""
    middles = sampled[RUN_ENTRIES // 2 :: RUN_ENTRIES]
    return middles[:: -(-len(middles) // MAX_PLANTED)]


def fresh_ring() -> dict[str, NDArray[Any]]:
    """The outputs that `verify` and `write` share."""
    return {
        "violation_ring": np.zeros((RING_CAPACITY, VIOLATION_FIELDS), dtype=np.uint64),
        "violation_write_index": memory.single(0, np.int32),
        "slot_run_counter": memory.single(0, np.int64),
        "kernel_run_counter": memory.single(0, np.int64),
    }


def ring_rows(outputs: HostArrays) -> NDArray[np.uint64]:
    """The rows of the ring in one order; a device's order is free."""
    count = min(int(outputs["violation_write_index"][0]), RING_CAPACITY)
    rows: NDArray[np.uint64] = outputs["violation_ring"][:count]
    return rows[np.lexsort(rows.T[::-1])]


def fold_outputs(num_entries: int, read_bytes: int) -> dict[str, NDArray[Any]]:
    """Scratch of `real_kv_hashes`; empty where nothing is read."""
    length = num_entries if read_bytes else 0
    return {"real_kv_hashes": np.zeros(length, np.uint64), "uncounted": memory.absent(np.int32)}


def real_kv_hashes(
    machine: Machine, arrays: PlacedArrays, *, layout: tuple[int, int, int]
) -> KernelArray:
    """Enqueue the fold of every entry's slot; what `verify` and `write` take of it.

    Args:
        machine: where.
        arrays: source_bytes, slots and what `fold_outputs` made among them.
        layout: page_size, num_bytes_per_token and read_bytes.
    """
    hashes = arrays["real_kv_hashes"]
    if layout[-1]:
        counts = (arrays["uncounted"], arrays["uncounted"])
        machine.kernels.launch_fold_source(
            arrays["source_bytes"], arrays["slots"], *counts, hashes, *layout, True
        )
    return hashes


def source_words(arrays: PlacedArrays) -> KernelArray:
    """The pool's bytes on a device as words, shape [n], uint64; its pages follow one another."""
    from kvaudit.kernels.cuda_module import flat_view

    return flat_view(arrays["source_bytes"], np.uint64).reshape(-1)
