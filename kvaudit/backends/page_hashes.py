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
    host = torch.device("cpu")
    by_page, chosen = PageFold(rows_per_page, host), device_kernels(host)
    # One after another: what one column's slots take is then in a core's cache.
    return [
        by_page.fold(torch.from_numpy(column)[None], chosen)[0].numpy() for column in slot_hashes
    ]


class PageFold:
    """Combines the hashes of pages' slots, on a device.

    The first slots of all pages are combined at once, then the second ones, and so on.

    Args:
        rows_per_page: how many consecutive slots are a page's, shape [pages], int64, above 0.
        device: where the slots' hashes are.
    """

    def __init__(self, rows_per_page: NDArray[np.int64], device: torch.device) -> None:
        first_rows = np.cumsum(rows_per_page) - rows_per_page
        pages = [
            np.flatnonzero(rows_per_page > slot_in_page)
            for slot_in_page in range(int(rows_per_page.max(initial=0)))
        ]
        slots = [first_rows[touched] + place for place, touched in enumerate(pages)]
        # Uploaded before anything is enqueued: an upload waits for what comes before it.
        sizes = [len(touched) for touched in pages]
        self._pages, self._slots = (
            torch.from_numpy(np.concatenate([first_rows[:0], *parts])).to(device).split(sizes)
            for parts in (pages, slots)
        )
        self._num_pages = len(rows_per_page)

    def fold(self, slot_hashes: torch.Tensor, chosen: LaunchKernels) -> torch.Tensor:
        """The pages' hashes of some columns.

        Args:
            slot_hashes: shape [columns, n], int64.
            chosen: the launchers, and how tensors become their arrays.

        Returns:
            shape [columns, pages], int64.
        """
        hashes = slot_hashes.new_zeros((len(slot_hashes), self._num_pages))
        for pages, slots in zip(self._pages, self._slots, strict=True):
            running = hashes.index_select(1, pages)
            chosen.kernels.launch_combine(
                chosen.arrays.hashed(slot_hashes.index_select(1, slots).view(-1)),
                chosen.arrays.hashed_output(running.view(-1)),
            )
            hashes.index_copy_(1, pages, running)
        return hashes
