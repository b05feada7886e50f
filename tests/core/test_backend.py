"""The backends satisfy the port."""

from __future__ import annotations

import inspect

import pytest

from kvaudit.backends.availability import choose
from kvaudit.core.backend import Backend

METHODS = [name for name, _ in inspect.getmembers(Backend, inspect.isfunction) if name[0] != "_"]


def test_the_port_has_methods() -> None:
    assert {"fold", "combine", "slot_hashes", "verify", "write_records"} <= set(METHODS)


@pytest.mark.parametrize("name", ["reference", "cpu"])
@pytest.mark.parametrize("method", METHODS)
def test_a_backend_takes_the_ports_arguments(name: str, method: str) -> None:
    backend, _ = choose(name, kv_bytes=0, num_entries=0)
    wanted = list(inspect.signature(getattr(Backend, method)).parameters)[1:]
    assert list(inspect.signature(getattr(backend, method)).parameters) == wanted
