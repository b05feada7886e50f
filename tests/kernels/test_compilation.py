"""Compiled code is kept, found again, and never found once any source of the kernels is another."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pickle import UnpicklingError

import pytest

from kvaudit.errors import BackendError
from kvaudit.kernels.compilation import cache_folder, compiled
from tests.helpers.package_copy import blocked_cache, copied_package

KERNEL = """
import sys
from kvaudit.kernels.compilation import cache_folder, compiled, needs_compilation

@compiled
def doubled(value):
    return value + value

print(needs_compilation([doubled]))
if "call" in sys.argv:
    doubled(3)
    print(sum(doubled.stats.cache_hits.values()), needs_compilation([doubled]))
print(cache_folder(doubled) is not None)
"""


@pytest.fixture
def run_kernel(tmp_path):
    """Run a module with one kernel in a process of its own; returns its words."""
    script = tmp_path / "one_kernel.py"
    script.write_text(KERNEL)

    def run(*arguments, **variables):
        done = subprocess.run(
            [sys.executable, "-W", "error", str(script), *arguments],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    return run


def test_kernel_is_kept_by_its_first_call_and_found_by_the_next_process(run_kernel):
    assert run_kernel() == ["True", "True"]
    assert run_kernel("call") == ["True", "0", "False", "True"]
    assert run_kernel() == ["False", "True"]
    assert run_kernel("call") == ["False", "1", "False", "True"]


@pytest.mark.parametrize("changed", ["kernels/hash/scalar.py", "constants.py"])
def test_code_of_other_sources_is_never_found_and_goes(run_kernel, tmp_path, changed):
    """Whatever the files' times say: installers give them times of their own."""
    package = copied_package(tmp_path)
    variables = {"PYTHONPATH": str(package.parent)}
    run_kernel("call", **variables)
    kept = set(tmp_path.rglob("one_kernel.doubled_*.nb[ic]"))
    source = package / changed
    source.write_text(source.read_text() + "# changed\n")
    os.utime(source, ns=(0, 0))
    assert run_kernel(**variables) == ["True", "True"]
    assert not any(file.exists() for file in kept)
    assert run_kernel("call", **variables) == ["True", "0", "False", "True"]
    assert len(set(tmp_path.rglob("one_kernel.doubled_*.nb[ic]"))) == len(kept) == 2


def test_kernel_runs_where_its_code_cannot_be_kept(run_kernel, tmp_path):
    variables = blocked_cache(tmp_path)
    assert run_kernel("call", **variables) == ["True", "0", "False", "False"]
    assert run_kernel("call", **variables) == ["True", "0", "False", "False"]


def test_processes_may_compile_at_once(run_kernel):
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(run_kernel, "call") for _ in range(3)]
    assert all(run.result()[2:] == ["False", "True"] for run in runs)
    assert run_kernel("call") == ["False", "1", "False", "True"]


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("what", ["nothing", "a part", "zeros"])
def test_torn_code_is_compiled_anew(run_kernel, tmp_path, ending, what):
    """A power loss leaves files that are short, or full of zeros."""
    variables = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run_kernel("call", **variables)
    (file,) = tmp_path.rglob(f"one_kernel.doubled_*.{ending}")
    whole = file.read_bytes()
    torn = {"nothing": b"", "a part": whole[:-9], "zeros": bytes(len(whole))}
    file.write_bytes(torn[what])
    assert run_kernel("call", **variables) == ["False", "0", "False", "True"]
    assert run_kernel("call", **variables) == ["False", "1", "False", "True"]


def test_torn_code_that_cannot_be_dropped_names_its_folder(monkeypatch):
    kernel = compiled(_doubled)

    def torn(*_):
        raise UnpicklingError

    def refused():
        raise PermissionError

    monkeypatch.setattr(kernel._cache, "_load_overload", torn)
    monkeypatch.setattr(kernel._cache, "flush", refused)
    with pytest.raises(BackendError) as raised:
        kernel(3)
    assert str(cache_folder(kernel)) in str(raised.value)
    assert str(cache_folder(kernel)) in raised.value.hint


def _doubled(value):
    return value + value
