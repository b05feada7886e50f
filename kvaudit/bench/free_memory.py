"""How much memory of the host is still to be had, as far as the system says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def free_host_bytes() -> int | None:
    """Memory that this process may still take; None where the system does not say."""
    bounds = list(_host_bounds())
    return min(bounds) if bounds else None


def _host_bounds() -> Iterator[int]:
    """What the system has available, and what a container's limit leaves."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, amount = line.partition(":")
            if name == "MemAvailable":
                yield int(amount.split()[0]) << 10
    group = Path("/sys/fs/cgroup")
    # `max` is no number: there is no limit.
    with suppress(OSError, ValueError):
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        yield limit - int((group / "memory.current").read_text(encoding="ascii"))
