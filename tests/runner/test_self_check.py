"""A backend that misses, invents or miscomputes must not give a verdict."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import pytest

from kvaudit.backends.availability import choose
from kvaudit.core.backend import Backend
from kvaudit.errors import SelfCheckFailed
from kvaudit.runner.self_check import check_chain, check_distance, prepare, self_check
from tests.helpers.watcher import Watcher


def _backend() -> Backend:
    return choose("reference", kv_bytes=0, num_entries=0)[0]


@pytest.mark.parametrize("name", ["reference", "cpu"])
def test_every_backend_passes(name: str) -> None:
    assert self_check(choose(name, kv_bytes=0, num_entries=0)[0]) == "passed"


@pytest.mark.parametrize("writes", [False, True])
def test_compiling_is_announced_before_it_happens_and_only_then(writes: bool) -> None:
    backend, events = _backend(), []

    class Fresh:
        def needs_compilation(self, *, writes: bool) -> bool:
            return (1, writes) not in events

        def compile_kernels(self, *, writes: bool) -> None:
            events.append((watcher.compiled, writes))

        def __getattr__(self, name: str) -> object:
            return getattr(backend, name)

    watcher, fresh = Watcher(), Fresh()
    for _ in range(2):
        assert prepare(fresh, watcher, writes=writes) == "passed"
    assert (watcher.compiled, events) == (1, [(1, writes)])


def _broken(method: str, wrong: Callable[[np.ndarray], np.ndarray]) -> Backend:
    backend = _backend()
    right = getattr(backend, method)

    class Broken:
        name = "broken"

        def __getattr__(self, name: str) -> object:
            if name != method:
                return getattr(backend, name)
            return lambda *args, **kwargs: wrong(right(*args, **kwargs))

    return Broken()


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        pytest.param("verify", np.zeros_like, id="verify misses everything"),
        pytest.param("verify", lambda bits: bits & ~np.uint32(4), id="verify misses one reason"),
        pytest.param("verify", lambda bits: bits | np.uint32(1), id="verify fails good entries"),
        pytest.param("fold", np.zeros_like, id="fold gives nothing"),
        pytest.param("fold", lambda hashes: hashes[[0, 0]], id="fold is blind to a flipped bit"),
        pytest.param("combine", lambda hashes: hashes + np.uint64(1), id="combine is wrong"),
    ],
)
def test_a_broken_backend_is_caught(method: str, wrong: Callable[..., np.ndarray]) -> None:
    with pytest.raises(SelfCheckFailed):
        self_check(_broken(method, wrong))


@pytest.mark.parametrize("module", ["reference", "numba_cpu"])
def test_every_join_of_chains_passes(module: str) -> None:
    check_chain(importlib.import_module(f"kvaudit.kernels.chain.{module}").launch_chain)


@pytest.mark.parametrize("linked", [(-1, 1, 1), (-1, 0, 0), (0, 1, 0), (-1, 1, 2)])
def test_a_join_that_invents_or_misses_a_link_gives_no_verdict(linked: tuple[int, ...]) -> None:
    def join(_records, _slots, prev_slots, _duplicates) -> None:
        prev_slots[:] = linked

    with pytest.raises(SelfCheckFailed, match="chain recovery"):
        check_chain(join)


@pytest.mark.parametrize("module", ["reference", "numba_cpu"])
def test_a_kernel_that_measures_known_rows_passes(module: str) -> None:
    kernel = importlib.import_module(f"kvaudit.kernels.distance.{module}")
    check_distance(kernel.launch_distance)


@pytest.mark.parametrize("measured", [(0, 1, 0), (0, 0, 0.17), (0.1, 1, 0.17)])
def test_a_kernel_that_takes_other_rows_for_equal_gives_no_verdict(
    measured: tuple[float, ...],
) -> None:
    def measure(_rows, _expected, distances) -> None:
        distances[:] = measured

    with pytest.raises(SelfCheckFailed, match="layer 0"):
        check_distance(measure)
