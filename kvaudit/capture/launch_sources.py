"""A pool's memory as launches read it: the KV that the canary's hash covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvaudit.capture.slot_view import SlotView
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    from kvaudit.backends.launch import RealKvSource


def launch_source(view: SlotView) -> RealKvSource:
    """One layer and half as a source; it shares the pool's memory.

    Raises:
        ConfigError: a token's bytes do not lie side by side, or slots are not evenly apart.
    """
    from kvaudit.backends.launch import RealKvSource

    token_elements = int(view.rows.shape[1:].numel())
    slot_stride = view.slot_step * int(view.rows.stride(0))
    page_stride = view.page_step * int(view.rows.stride(0))
    is_whole = view.span_bytes == view.row_bytes
    if is_whole and view.page_size > 1 and slot_stride == token_elements:
        page_size, row_stride = view.page_size, page_stride
    elif is_whole and (view.page_size == 1 or page_stride == view.page_size * slot_stride):
        page_size, row_stride = 1, page_stride // view.page_size
    else:
        raise ConfigError(
            f"{view.name}: launches hash a token whose bytes lie side by side, page after page",
            hint="set real_kv_hash_mode to none, or use a layout with the slot before the head",
        )
    shape = (view.num_slots // page_size, page_size * token_elements)
    return RealKvSource(
        tensor=view.rows.as_strided(shape, (row_stride, 1)),
        page_size=page_size,
        num_bytes_per_token=view.row_bytes,
        read_bytes=view.row_bytes,
    )
