"""The hash of every row of KV columns, computed where their tensors lie.

CUDA tensors are hashed on their devices, all columns at once, and only hashes come to the host.
Everything else, and CUDA tensors where kvaudit's kernels cannot run (`kvaudit doctor` says why), is
gathered and hashed on the CPU: slower, and the same hashes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.slot_view import GatheredColumn
from kvaudit.core.kv_column import KvColumn
from kvaudit.errors import BackendError


def column_digests(
    columns: Mapping[str, KvColumn], *, rows_per_page: NDArray[np.int64] | None = None
) -> dict[str, NDArray[np.int64]]:
    """The source hash of every row of each column, or one a page.

    Args:
        columns: by name; those that gather from a pool name the same slots in the same order.
        rows_per_page: how many consecutive rows are hashed together, shape [pages], int64; None =
            each row has a hash of its own.

    Returns:
        by name, in the order of the columns; shape [num_rows], or [pages], int64.

    Raises:
        ConfigError: a pool's memory was given back.
        DeviceFailed: a device reported an error.
    """
    from kvaudit.backends.page_hashes import page_hashes
    from kvaudit.backends.slot_hashes import slot_hashes

    gathered = {
        name: column for name, column in columns.items() if isinstance(column, GatheredColumn)
    }
    for column in gathered.values():
        column.view.check_readable()
    on_device = {name: column for name, column in gathered.items() if column.view.rows.is_cuda}
    if on_device and not _kernels_run():
        on_device = {}
    hashes: dict[str, NDArray[np.int64]] = {}
    if on_device:
        views = [column.view for column in on_device.values()]
        slots = next(iter(on_device.values())).slots
        computed = slot_hashes(views, slots, rows_per_page=rows_per_page)
        hashes.update(zip(on_device, computed, strict=True))
    others = {name: column for name, column in columns.items() if name not in on_device}
    on_host = list(_folded_on_cpu(others))
    if rows_per_page is not None:
        on_host = page_hashes(on_host, rows_per_page)
    hashes.update(zip(others, on_host, strict=True))
    return {name: hashes[name] for name in columns}


def _kernels_run() -> bool:
    from kvaudit.backends.cuda_device import require_cuda

    try:
        require_cuda()
    except BackendError:
        return False
    return True


def _folded_on_cpu(columns: Mapping[str, KvColumn]) -> list[NDArray[np.int64]]:
    from kvaudit.backends.availability import choose

    kv_bytes = sum(column.num_rows * column.row_bytes for column in columns.values())
    backend, _ = choose("cpu", kv_bytes=kv_bytes, num_entries=0)
    return [
        backend.fold(column, np.arange(column.num_rows, dtype=np.int64)).view(np.int64)
        for column in columns.values()
    ]
