"""Which slots launches have named, where the launches run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.torch_module import torch


class SlotMask:
    """A set of slots of a pool that is added to each step.

    On the host numpy marks them: torch would wake its threads for it, each step anew.

    Args:
        num_slots: slots of the pool; what lies outside counts as its first or last one.
        device: where the slots come from.
    """

    def __init__(self, num_slots: int, *, device: torch.device) -> None:
        self._mask = torch.zeros(num_slots, dtype=torch.bool, device=device)
        self._host = self._mask.numpy() if device.type == "cpu" else None

    def mark(self, slots: torch.Tensor) -> int:
        """Add slots, shape [n], int64; returns how many of them are padding, slot 0."""
        last = len(self._mask) - 1
        if self._host is None:
            self._mask[slots.clamp(0, last)] = True
            return len(slots) - int(torch.count_nonzero(slots))
        array = slots.numpy()
        self._host[np.clip(array, 0, last)] = True
        return len(array) - int(np.count_nonzero(array))

    def read(self) -> NDArray[np.bool_]:
        """The set, shape [num_slots], bool."""
        mask: NDArray[np.bool_] = self._mask.cpu().numpy()
        return mask
