from __future__ import annotations

from types import SimpleNamespace

import pytest

from kvaudit.bench import room
from kvaudit.bench.machine import HostMachine
from kvaudit.bench.options import Op
from kvaudit.errors import ConfigError
from tests.helpers.bench_pools import options

MIB = 1 << 20


def _check(monkeypatch, *, free: int | None = None, backend: str = "cpu", **changes) -> None:
    monkeypatch.setattr(room, "free_host_bytes", lambda: free)
    room.check_room(options(**changes), HostMachine("numba_cpu"), backend=backend)


def test_what_fits_is_not_refused(monkeypatch) -> None:
    _check(monkeypatch, free=1 << 40)
    _check(monkeypatch, free=None)


def test_the_largest_size_must_fit_into_host_memory(monkeypatch) -> None:
    with pytest.raises(ConfigError, match=r"--sizes 1m .* of host memory, and 104\.9 MB are free"):
        _check(monkeypatch, free=100 * MIB, sizes=(2048, 1 << 20))


def test_bytes_that_nothing_reads_take_no_memory(monkeypatch) -> None:
    wide = {"bytes_per_token": 1 << 20, "free": 600 * MIB}
    _check(monkeypatch, ops=(Op.PLAN,), **wide)
    with pytest.raises(ConfigError):
        _check(monkeypatch, ops=(Op.FOLD,), **wide)


def test_a_device_has_memory_of_its_own(monkeypatch) -> None:
    monkeypatch.setattr(room, "free_host_bytes", lambda: None)
    device = SimpleNamespace(is_device=True, free_bytes=lambda: 3 * MIB)
    room.check_room(options(), device, backend="cuda")
    with pytest.raises(ConfigError, match="device memory"):
        room.check_room(options(sizes=(1 << 16,)), device, backend="cuda")


def test_a_file_must_fit_onto_the_disk(monkeypatch) -> None:
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: SimpleNamespace(free=MIB // 2))
    _check(monkeypatch)
    for op in (Op.FILE, Op.DUMP):
        _check(monkeypatch, ops=(op,), sizes=(1024,))
    with pytest.raises(ConfigError, match="room in") as caught:
        _check(monkeypatch, ops=(Op.FILE,), sizes=(1 << 14,))
    assert "TMPDIR" in caught.value.hint


def test_hours_of_the_reference_are_refused_with_their_number(monkeypatch) -> None:
    _check(monkeypatch, backend="reference")
    with pytest.raises(ConfigError, match=r"--backend reference would take about \d+ minutes"):
        _check(monkeypatch, backend="reference", sizes=(1 << 24,))
