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
class BoundFold:
    """The fold of a launch's slots, which can be enqueued any number of times.

    Fields:
        real_kv_hashes: hash of each entry, as `verify` and `write` take it, shape [n], uint64;
            shape [0] in mode NONE or without sources, where 0 is expected.
        enqueue: folds so many leading entries anew; the others get 0.
    """

    real_kv_hashes: KernelArray
    enqueue: Callable[[int], None]


class BindFold(Protocol):
    """Makes the fold of a context's sources, its scratch memory included."""

    def __call__(
        self,
        kernels: KernelSet,
        arrays: LaunchArrays,
        /,
        *,
        context: VerifyOrWriteContext,
        slot_indices: torch.Tensor,
    ) -> BoundFold:
        """Bind the fold of each entry's slot over all sources.

        Args:
            kernels: the launchers.
            arrays: how tensors become their arrays.
            context: the sources and the mode.
            slot_indices: slot of each entry, shape [n], int64.
        """
        ...
