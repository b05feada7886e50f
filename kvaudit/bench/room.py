"""Whether a run fits before anything of it runs: memory of host and device, disk, and patience."""

from __future__ import annotations

import shutil
import tempfile
from typing import Final

from kvaudit.bench.free_memory import free_host_bytes
from kvaudit.bench.machine import MAX_YARDSTICK_BYTES, Machine
from kvaudit.bench.options import MODAL_OPS, BenchOptions, Op, RealKv, size_label
from kvaudit.bench.pool import kv_bytes
from kvaudit.constants import WORD_BYTES
from kvaudit.core.size_label import bytes_label
from kvaudit.errors import ConfigError

# By the entry, at the widest moment: plans, records, outputs, and what they are compared with.
_HOST_ENTRY_BYTES: Final = 400
_DEVICE_ENTRY_BYTES: Final = 300
_FILE_ENTRY_BYTES: Final = 200
# What a launch moves beside the bytes of slots, at most.
_ENTRY_TRAFFIC_BYTES: Final = 100
# The program itself, and the windows of a file.
_HOST_BASE_BYTES: Final = 300 << 20
_REFERENCE_STEPS_PER_S: Final = 2_000_000
_REFERENCE_ENTRY_STEPS: Final = 20
_MAX_REFERENCE_SECONDS: Final = 600
_FOLDER_HINT: Final = ", or set TMPDIR to a folder with more room"


def check_room(options: BenchOptions, machine: Machine, *, backend: str) -> None:
    """Refuse sizes that this machine cannot hold, or that the reference would take hours for.

    Raises:
        ConfigError: naming the size, what it needs and what there is.
    """
    largest = max(options.sizes)
    pool_bytes = kv_bytes(options, largest)
    used_bytes = pool_bytes if options.reads_bytes() else 0
    yardstick = min(MAX_YARDSTICK_BYTES, used_bytes + largest * _ENTRY_TRAFFIC_BYTES)
    host_need = used_bytes + largest * _HOST_ENTRY_BYTES + yardstick + _HOST_BASE_BYTES
    _refuse(largest, "host memory", need=host_need, free=free_host_bytes())
    if machine.is_device:
        # A pool to dump lies beside the one of the launches until that one is given back.
        num_pools = 1 + (Op.DUMP in options.ops)
        device_need = used_bytes * num_pools + largest * _DEVICE_ENTRY_BYTES + yardstick
        _refuse(largest, "device memory", need=device_need, free=machine.free_bytes())
    if Op.FILE in options.ops or Op.DUMP in options.ops:
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        file_need = pool_bytes * (Op.FILE in options.ops) + largest * _FILE_ENTRY_BYTES
        _refuse(largest, f"room in {folder}", need=file_need, free=free, else_hint=_FOLDER_HINT)
    if backend == "reference":
        _refuse_patience(options)


def _refuse(size: int, what: str, *, need: int, free: int | None, else_hint: str = "") -> None:
    if free is not None and need > free:
        raise ConfigError(
            f"--sizes {size_label(size)} takes about {bytes_label(need)} of {what}, and "
            f"{bytes_label(free)} are free",
            hint=f"choose smaller --sizes, --layers, --bytes-per-token or --page-size{else_hint}",
        )


def _refuse_patience(options: BenchOptions) -> None:
    """The reference runs each launch once to be proved, once to warm up, and then is timed."""
    steps = 0
    for op in options.ops:
        modes = options.real_kv if op in MODAL_OPS else (RealKv.NONE,)
        per_entry = sum(
            _REFERENCE_ENTRY_STEPS + options.read_bytes(mode) // WORD_BYTES for mode in modes
        )
        steps += sum(options.sizes) * per_entry * (options.repeats + 2)
    seconds = steps / _REFERENCE_STEPS_PER_S
    if seconds > _MAX_REFERENCE_SECONDS:
        raise ConfigError(
            f"--backend reference would take about {seconds / 60:,.0f} minutes",
            hint="choose smaller --sizes and fewer --repeats, or another backend",
        )
