from __future__ import annotations

import numpy as np

from kvaudit.bench import free_memory


def test_free_memory_is_room_for_what_this_test_takes() -> None:
    free = free_memory.free_host_bytes()
    assert free is None or free > np.ones(1 << 20).nbytes


def test_the_narrowest_bound_counts(monkeypatch) -> None:
    monkeypatch.setattr(free_memory, "_host_bounds", lambda: iter((7, 3, 5)))
    assert free_memory.free_host_bytes() == 3
    monkeypatch.setattr(free_memory, "_host_bounds", lambda: iter(()))
    assert free_memory.free_host_bytes() is None


def test_a_system_that_says_nothing_has_no_bound(monkeypatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(free_memory.Path, "read_text", refuse)
    assert free_memory.free_host_bytes() is None


def test_a_container_without_a_limit_has_none(monkeypatch) -> None:
    monkeypatch.setattr(
        free_memory.Path,
        "read_text",
        lambda path, **_: "max\n" if path.name == "memory.max" else "MemAvailable:  2 kB\n",
    )
    assert free_memory.free_host_bytes() == 2048
