"""Backends that stand in for the devices of a machine."""

from __future__ import annotations

from collections.abc import Sequence

from kvaudit.backends.reference import ReferenceBackend


class Device(ReferenceBackend):
    """One of several devices of one name; `machine` lists all of them, the first one first."""

    device = "NVIDIA H200 (9.0)"

    def __init__(self, machine: list[Device]) -> None:
        super().__init__()
        self.machine = machine
        machine.append(self)

    @property
    def device_bytes(self) -> int:
        return 1000

    def spread(self, num_jobs: int) -> Sequence[Device]:
        return self.machine[:num_jobs]


def machine_of(num_devices: int, kind: type[Device] = Device) -> list[Device]:
    """The devices of a machine."""
    machine: list[Device] = []
    for _ in range(num_devices):
        kind(machine)
    return machine
