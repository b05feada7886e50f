"""Which backend runs a job: a named one is a demand, `auto` takes the one that finishes first.

A demand that cannot be met raises one of three errors, so that a user knows what to do: something
is not installed, there is no device, or the device is too old. `auto` never hides why a faster
backend did not run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvaudit.backends.cuda_device import require_cuda
from kvaudit.backends.reference import ReferenceBackend
from kvaudit.core.backend import Backend
from kvaudit.core.report import BackendChoice
from kvaudit.errors import BackendError, BackendNotInstalled, ConfigError

AUTO: Final = "auto"


class BackendStatus(NamedTuple):
    """Whether a backend can run here.

    Fields:
        name: `cuda`, `cpu` or `reference`.
        usable: whether it can run.
        device: what it would run on; "" when it cannot.
        reason: why it cannot run; "" when it can.
    """

    name: str
    usable: bool
    device: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """A rough guess of a backend's speed; it decides between backends, never what is reported.

    Fields:
        startup_seconds: before the first kernel runs, once compiled.
        kv_bytes_per_second: folding, transfers and digest checks included.
        entries_per_second: checking records, transfers included.
    """

    startup_seconds: float
    kv_bytes_per_second: float
    entries_per_second: float

    def seconds(self, *, kv_bytes: int, num_entries: int) -> float:
        """From start to verdict."""
        return (
            self.startup_seconds
            + kv_bytes / self.kv_bytes_per_second
            + num_entries / self.entries_per_second
        )


def _open_cuda() -> Backend:
    device = require_cuda()
    from kvaudit.backends.cuda import CudaBackend

    return CudaBackend(device=device)


def _open_cpu() -> Backend:
    try:
        from kvaudit.backends.cpu import CpuBackend
    except ImportError as error:
        raise BackendNotInstalled(
            f"numba cannot be imported: {error}", hint="reinstall kvaudit with its dependencies"
        ) from error
    return CpuBackend()


_OPENERS: Final[dict[str, Callable[[], Backend]]] = {
    "cuda": _open_cuda,
    "cpu": _open_cpu,
    "reference": ReferenceBackend,
}
NAMES: Final = tuple(_OPENERS)
