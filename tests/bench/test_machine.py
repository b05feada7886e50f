from __future__ import annotations

import numpy as np

from kvaudit.backends.kernel_set import kernel_set
from kvaudit.bench.machine import (
    MAX_YARDSTICK_BYTES,
    MIN_YARDSTICK_BYTES,
    HostMachine,
    wall_seconds,
    yardstick_words,
)


def test_inputs_are_read_only_and_outputs_are_the_array_itself() -> None:
    machine = HostMachine("numba_cpu")
    array = np.arange(4)
    assert not machine.place(array).flags.writeable
    assert machine.place(array, writeable=True) is array
    assert machine.fetch(array) is array


def test_a_machine_launches_its_own_kernels() -> None:
    assert HostMachine("reference").kernels is kernel_set("reference")
    assert HostMachine("numba_cpu").kernels is kernel_set("numba_cpu")


def test_every_repeat_is_timed_and_the_first_call_is_not() -> None:
    calls = []
    seconds = HostMachine("numba_cpu").seconds(lambda: calls.append(1), repeats=3)
    assert len(seconds) == 3
    assert len(calls) == 4
    assert all(each >= 0 for each in seconds)
    assert len(wall_seconds(lambda: calls.append(1), repeats=2)) == 2
    assert len(calls) == 6


def test_a_yardstick_is_a_bandwidth_with_its_direction() -> None:
    for direction in ("read", "write"):
        yardstick = HostMachine("numba_cpu").yardstick(direction, 1 << 22)
        assert yardstick.name == direction
        assert 0.01 < yardstick.gb_per_s < 1e5


def test_a_yardstick_is_as_long_as_the_launch_within_bounds() -> None:
    assert yardstick_words(1) * 8 == MIN_YARDSTICK_BYTES
    assert yardstick_words(1 << 40) * 8 == MAX_YARDSTICK_BYTES
    assert yardstick_words((1 << 22) + 9) == (1 << 19)
