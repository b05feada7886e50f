"""Which backend runs a job: a named one is a demand, `auto` takes the one that finishes first.

A demand that cannot be met raises one of three errors, so that a user knows what to do: something
is not installed, there is no device, or the device is too old. `auto` says why a faster backend did
not run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvaudit.backends.cuda_device import (
    numba_imports_translated,
    require_cuda,
    require_driver,
)
from kvaudit.backends.reference import ReferenceBackend
from kvaudit.core.backend import Backend
from kvaudit.core.report import BackendChoice
from kvaudit.core.size_label import bytes_label
from kvaudit.errors import BackendError, ConfigError
from kvaudit.kernels.row_threads import num_threads

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
class _Candidate:
    """A backend and a guess of its pace, which decides between backends and nothing else.

    Fields:
        require: raises BackendError where it cannot run, as far as is known without starting it.
        find_device: the device it runs on; raises BackendError when it cannot run.
        create: makes the backend for that device.
        startup_seconds: before the first kernel runs, once compiled.
        kv_bytes_per_second: folding, with digest checks and transfers.
        entries_per_second: checking records, with transfers.
    """

    require: Callable[[], None]
    find_device: Callable[[], str]
    create: Callable[[str], Backend]
    startup_seconds: float
    kv_bytes_per_second: float
    entries_per_second: float

    def seconds(self, *, kv_bytes: int, num_entries: int) -> float:
        """Guess of the time from start to verdict."""
        folding = kv_bytes / self.kv_bytes_per_second
        return self.startup_seconds + folding + num_entries / self.entries_per_second


def _require_nothing() -> None:
    """What is missing shows when the backend is imported."""


def _cpu_device() -> str:
    with numba_imports_translated():
        from kvaudit.backends.cpu import CpuBackend
    return CpuBackend().device


def _create_cpu(_device: str) -> Backend:
    from kvaudit.backends.cpu import CpuBackend

    return CpuBackend()


def _create_cuda(device: str) -> Backend:
    from kvaudit.backends.cuda import CudaBackend

    return CudaBackend(device=device)


# A shorter time would print as `about 0.0 s`.
_SHORTEST_SECONDS = 0.1
_CORES = num_threads()
# Best first. Seen on an H200 with 4 and 16 cores, and on two cores without a device. Before a device
# comes what the cores share out: to read and to copy, up to half the pace of the link. On the CPU
# Python hands on the windows, at a pace that few cores reach.
_CANDIDATES: Final = {
    "cuda": _Candidate(
        require=require_driver,
        find_device=require_cuda,
        create=_create_cuda,
        startup_seconds=1.1,
        kv_bytes_per_second=min(3.5e9 * _CORES, 27e9),
        entries_per_second=6e7,
    ),
    "cpu": _Candidate(
        require=_require_nothing,
        find_device=_cpu_device,
        create=_create_cpu,
        startup_seconds=0.0,
        kv_bytes_per_second=min(2.5e9 * _CORES, 6.5e9),
        entries_per_second=3e7 * min(_CORES, 8),
    ),
    "reference": _Candidate(
        require=_require_nothing,
        find_device=lambda: ReferenceBackend.device,
        create=lambda _device: ReferenceBackend(),
        startup_seconds=0.0,
        kv_bytes_per_second=2e6,
        entries_per_second=2e5,
    ),
}


def choose(name: str, *, kv_bytes: int, num_entries: int) -> tuple[Backend, BackendChoice]:
    """The backend for a job, and why it.

    Args:
        name: `auto`, `cuda`, `cpu` or `reference`.
        kv_bytes: KV bytes that will be folded.
        num_entries: entries that will be checked, over all launches.

    Raises:
        ConfigError: the name is none of these.
        BackendNotInstalled: the named backend needs a package; the hint names the extra.
        NoDevice: the named backend needs a device or a driver.
        DeviceUnsupported: the device is too old.
    """
    if name == AUTO:
        name, device, reason = _pick(kv_bytes=kv_bytes, num_entries=num_entries)
    elif name in _CANDIDATES:
        device, reason = _CANDIDATES[name].find_device(), "asked for by name"
    else:
        known = ", ".join((AUTO, *_CANDIDATES))
        raise ConfigError(f"there is no backend {name!r}", hint=f"choose one of {known}")
    backend = _CANDIDATES[name].create(device)
    return backend, BackendChoice(name=backend.name, device=backend.device, reason=reason)


def survey() -> list[BackendStatus]:
    """Every backend with whether it can run here, best first."""
    statuses = []
    for name, candidate in _CANDIDATES.items():
        try:
            statuses.append(BackendStatus(name, True, candidate.find_device(), ""))
        except BackendError as error:
            statuses.append(BackendStatus(name, False, "", error.message))
    return statuses


def _pick(*, kv_bytes: int, num_entries: int) -> tuple[str, str, str]:
    """Name, device and reason of the backend that should finish first.

    A slower one is not started to find out whether it could: a device takes longer for that than
    many a job.
    """
    missing: dict[str, str] = {}
    guesses: dict[str, float] = {}
    for name, candidate in _CANDIDATES.items():
        try:
            candidate.require()
        except BackendError as error:
            missing[name] = error.message
        else:
            guesses[name] = candidate.seconds(kv_bytes=kv_bytes, num_entries=num_entries)
    while True:
        fastest = min(guesses, key=lambda name: guesses[name])
        try:
            device = _CANDIDATES[fastest].find_device()
            break
        except BackendError as error:
            missing[fastest] = error.message
            del guesses[fastest]
    # The reference judges; it races only where nothing else runs.
    rivals = [name for name in guesses if name not in (fastest, "reference")]
    job = f"{bytes_label(kv_bytes)} of KV and {num_entries:,} entries"
    parts = [f"{job} take {_seconds_label(guesses[fastest])}"]
    parts += [f"{name} would take {_seconds_label(guesses[name])}" for name in rivals]
    parts += [f"{name} did not run: {reason}" for name, reason in missing.items()]
    return fastest, device, "; ".join(parts)


def _seconds_label(seconds: float) -> str:
    """A rough duration, such as `about 1.5 s`."""
    if seconds < _SHORTEST_SECONDS:
        return f"under {_SHORTEST_SECONDS} s"
    return f"about {seconds:.1f} s"
