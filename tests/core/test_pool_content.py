"""What the runner hands to the rules satisfies the port."""

from __future__ import annotations

import inspect

import pytest

from kvaudit.core.pool_content import PoolContent
from kvaudit.runner.slot_content import SlotContent

METHODS = [
    name for name, _ in inspect.getmembers(PoolContent, inspect.isfunction) if name[0] != "_"
]


def test_the_port_has_methods() -> None:
    assert {"slot_hashes", "source_hashes", "kv_bytes"} == set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_the_runners_content_takes_the_ports_arguments(method: str) -> None:
    wanted = inspect.signature(getattr(PoolContent, method)).parameters
    assert list(inspect.signature(getattr(SlotContent, method)).parameters) == list(wanted)
