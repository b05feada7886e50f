"""Pools over several devices: the report of one device, whatever their number."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.backend import Backend
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.observer import RunObserver, SilentObserver
from kvaudit.core.report import BackendChoice, InputFile, Report
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import DeviceFailed, FileCorrupt, SelfCheckFailed
from kvaudit.runner.audit import audit
from kvaudit.runner.pool_spread import device_label, prepare_all
from tests.helpers import corruptions
from tests.helpers.devices import Device, machine_of
from tests.helpers.kv_columns import WindowedColumn
from tests.helpers.watcher import Watcher
from tests.helpers.worlds import fixture_f

PATIENCE_S = 30
NUM_POOLS = 5
CHOICE = BackendChoice(name="cuda", device="the first device", reason="asked for by name")


def _pool(rank: int, *, damaged: bool = False, corrupt: bool = False) -> AuditedPool:
    world = fixture_f(mode=RealKvHashMode.ALL, stamps=("kv.v.1",), key=PoolKey(rank=rank))
    if damaged:
        corruptions.flip_bit(world, "kv.v.1", 2 + rank)
    (pool,) = world.dataset().pools
    snapshot = replace(pool.snapshot, path=f"r{rank}.snapshot.arrow")
    if corrupt:
        column = snapshot.kv["kv.k.0"]
        broken = WindowedColumn(
            data=column.read_rows(0, column.num_rows),
            read_bytes=column.read_bytes,
            window_rows=3,
            corrupt=1,
        )
        snapshot = replace(snapshot, kv={**snapshot.kv, "kv.k.0": broken})
    return replace(pool, snapshot=snapshot)


def _dataset(**ranks: tuple[int, ...]) -> Dataset:
    pools = [
        _pool(rank, **{kind: rank in chosen for kind, chosen in ranks.items()})
        for rank in range(NUM_POOLS)
    ]
    files = [InputFile(path=pool.snapshot.path, kind="snapshot") for pool in pools]
    return Dataset(pools=pools, files=files)


def _audited(dataset: Dataset, backend: Backend, observer: RunObserver | None = None) -> Report:
    return audit(
        dataset,
        backend=backend,
        choice=CHOICE,
        options=AuditOptions(),
        observer=SilentObserver() if observer is None else observer,
    )


def _document(report: Report) -> dict[str, object]:
    """The report without what a number of devices may change."""
    document = report.to_dict()
    del document["timing"]
    del document["backend"]
    return document


@pytest.mark.parametrize("num_devices", [2, 3, 8])
@pytest.mark.parametrize(
    "ranks", [{}, {"damaged": (1, 4)}, {"corrupt": (0, 3), "damaged": (2,)}], ids=str
)
def test_any_number_of_devices_gives_the_report_of_one(
    num_devices: int, ranks: dict[str, tuple[int, ...]]
) -> None:
    alone = _audited(_dataset(**ranks), machine_of(1)[0])
    spread = _audited(_dataset(**ranks), machine_of(num_devices)[0])
    assert _document(spread) == _document(alone)
    assert len(spread.left_out) == len(ranks.get("corrupt", ()))
    assert spread.violations_total == len(ranks.get("damaged", ()))


def test_the_error_of_the_first_pool_is_raised_when_none_can_be_used() -> None:
    dataset = _dataset(corrupt=tuple(range(NUM_POOLS)))
    with pytest.raises(FileCorrupt) as alone:
        _audited(dataset, machine_of(1)[0])
    with pytest.raises(FileCorrupt) as spread:
        _audited(dataset, machine_of(3)[0])
    assert str(spread.value) == str(alone.value)


def test_every_device_takes_pools_and_none_two_at_a_time() -> None:
    together = threading.Barrier(2, timeout=PATIENCE_S)
    audited: dict[int, list[str]] = {}

    class Meeting(Device):
        def fold(self, column: object, *args: object, **options: object) -> np.ndarray:
            if column.name == "kv.k.0" and column.num_rows > 2:
                thread = threading.current_thread().name
                audited.setdefault(id(self), []).append(thread)
                if len(audited[id(self)]) == 1:
                    together.wait()
            return super().fold(column, *args, **options)

    _audited(_dataset(), machine_of(2, Meeting)[0])
    assert len(audited) == 2
    assert sum(map(len, audited.values())) == NUM_POOLS


def test_progress_is_that_of_one_device() -> None:
    watchers = []
    for num_devices in (1, 4):
        watcher = Watcher()
        watchers.append(watcher)
        _audited(_dataset(), machine_of(num_devices)[0], watcher)
    alone, spread = watchers
    assert spread.stages == alone.stages
    assert all(total == done for total, done in spread.stages.values())


@pytest.mark.parametrize(
    ("num_pools", "num_devices", "label", "device_bytes"),
    [
        (1, 4, "NVIDIA H200 (9.0)", 1000),
        (5, 2, "2 x NVIDIA H200 (9.0)", 2000),
        (5, 8, "5 x NVIDIA H200 (9.0)", 5000),
    ],
)
def test_the_report_names_the_devices_that_ran_and_their_memory(
    num_pools: int, num_devices: int, label: str, device_bytes: int
) -> None:
    dataset = _dataset()
    report = _audited(replace(dataset, pools=dataset.pools[:num_pools]), machine_of(num_devices)[0])
    assert (report.backend.device, report.backend.device_bytes) == (label, device_bytes)
    assert (report.backend.name, report.backend.reason) == (CHOICE.name, CHOICE.reason)


def test_devices_of_different_names_are_listed() -> None:
    machine = machine_of(3)
    machine[1].device = "NVIDIA L4 (8.9)"
    assert device_label(machine) == "2 x NVIDIA H200 (9.0) + NVIDIA L4 (8.9)"


def test_a_device_that_fails_ends_the_run() -> None:
    class Failing(Device):
        def combine(self, *args: object, **options: object) -> np.ndarray:
            if self is self.machine[-1] and len(args[0][0]) > 2:
                raise DeviceFailed("the CUDA device: gone", hint="look at it")
            return super().combine(*args, **options)

    with pytest.raises(DeviceFailed):
        _audited(_dataset(), machine_of(2, Failing)[0])


def _spoilt(change: Callable[[np.ndarray], np.ndarray]) -> list[Device]:
    class Spoilt(Device):
        def fold(self, *args: object, **options: object) -> np.ndarray:
            hashes = super().fold(*args, **options)
            return change(hashes) if self is self.machine[-1] else hashes

    return machine_of(3, Spoilt)


def test_every_device_checks_itself_before_a_pool_is_judged() -> None:
    watcher = Watcher()
    assert prepare_all(_spoilt(lambda hashes: hashes), watcher) == "passed"
    with pytest.raises(SelfCheckFailed):
        prepare_all(_spoilt(lambda hashes: hashes + np.uint64(1)), watcher)
