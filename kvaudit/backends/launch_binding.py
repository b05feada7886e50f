"""What a launch and its fold are, once they are bound to their tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kvaudit.backends.kernel_set import KernelSet
from kvaudit.backends.launch_arrays import LaunchArrays
from kvaudit.backends.launch_types import VerifyOrWriteContext
from kvaudit.backends.torch_module import torch
from kvaudit.kernels.array_forms import KernelArray

# Runs a launch, any number of times, on what its tensors hold by then.
Enqueue: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoldedEntries:
    """The entries of a launch, of which those in use are folded.

    Fields:
        slot_indices: slot of each entry, shape [n], int64.
        num_valid: how many leading entries are in use, read when the fold runs, shape [1], int32.
        enable: 0 = none is, read when the fold runs, shape [1], int32; shape [0]: they always are.
    """

    slot_indices: torch.Tensor
    num_valid: KernelArray
    enable: KernelArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundSource:
    """A source as the kernels take it.

    Fields:
        source_bytes: shape [num_rows, row_bytes], uint8.
        layout: page_size, num_bytes_per_token, read_bytes.
    """

    source_bytes: KernelArray
    layout: tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundFold:
    """The fold of a launch's slots, which can be enqueued any number of times.

    Fields:
        real_kv_hashes: hash of each entry over the sources folded here, shape [n], uint64;
            unspecified for entries not in use. Shape [0] where none is: 0 is expected.
        last_source: the source that the launch folds itself, after those; None: it has none.
        enqueue: folds the entries in use anew.
    """

    real_kv_hashes: KernelArray
    last_source: BoundSource | None
    enqueue: Enqueue


class BindFold(Protocol):
    """Makes the fold of a context's sources, its scratch memory included."""

    def __call__(
        self,
        kernels: KernelSet,
        arrays: LaunchArrays,
        /,
        *,
        context: VerifyOrWriteContext,
        entries: FoldedEntries,
        leaves_last: bool,
    ) -> BoundFold:
        """Bind the fold of each entry's slot over all sources.

        Args:
            kernels: the launchers.
            arrays: how tensors become their arrays.
            context: the sources and the mode.
            entries: whose slots are folded.
            leaves_last: whether the launch can fold the last source itself, as a verify can.
        """
        ...
