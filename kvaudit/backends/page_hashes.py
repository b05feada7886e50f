"""One hash a page: the source hashes of its slots, combined in slot order.

A page's hash starts at 0; each of its slots carries it on to S(hash ^ source hash of the slot), as
columns are combined to real_kv_hash.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.launch_kernels import LaunchKernels, device_kernels
from kvaudit.backends.torch_module import torch


def page_hashes(
    slot_hashes: Sequence[NDArray[np.int64]], rows_per_page: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """The pages' hashes of columns whose slots' hashes are in host memory.

    Args:
        slot_hashes: of each column, shape [n], int64.
        rows_per_page: how many consecutive slots are a page's, shape [pages], int64, above 0.

    Returns:
        for each column shape [pages], int64.
    """
    if not slot_hashes:
        return []
    together = torch.from_numpy(np.stack(slot_hashes))
    folded = fold_pages(together, rows_per_page, chosen=device_kernels(together.device))
    return list(folded.numpy())


def fold_pages(
    slot_hashes: torch.Tensor,
    rows_per_page: NDArray[np.int64],
    *,
    chosen: LaunchKernels,
) -> torch.Tensor:
    """The pages' hashes of all columns, on the device of the slots' hashes.

    The first slots of all pages are combined at once, then the second ones, and so on.

    Args:
        slot_hashes: shape [columns, n], int64.
        rows_per_page: how many consecutive slots are a page's, shape [pages], int64, above 0.
        chosen: the launchers, and how tensors become their arrays.

    Returns:
        shape [columns, pages], int64.
    """
    device = slot_hashes.device
    firsts = np.cumsum(rows_per_page) - rows_per_page
    hashes = torch.zeros((len(slot_hashes), len(rows_per_page)), dtype=torch.int64, device=device)
    for slot_in_page in range(int(rows_per_page.max(initial=0))):
        pages = np.flatnonzero(rows_per_page > slot_in_page)
        slots = torch.from_numpy(firsts[pages] + slot_in_page).to(device)
        touched = torch.from_numpy(pages).to(device)
        running = hashes.index_select(1, touched)
        chosen.kernels.launch_combine(
            chosen.arrays.hashed(slot_hashes.index_select(1, slots).view(-1)),
            chosen.arrays.hashed_output(running.view(-1)),
        )
        hashes.index_copy_(1, touched, running)
    return hashes
