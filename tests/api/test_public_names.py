from __future__ import annotations

from kvaudit import api
from tests.helpers.pool_files import modules_after


def test_the_public_names_are_listed_in_order() -> None:
    assert api.__all__ == sorted(api.__all__)
    assert all(callable(getattr(api, name)) for name in api.__all__)


def test_importing_the_api_loads_nothing_heavy() -> None:
    assert not {"torch", "numba", "pyarrow"} & modules_after("import kvaudit.api")
