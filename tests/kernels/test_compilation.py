"""Compiled code is kept, found again, and dropped when any source of the kernels is newer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvaudit.kernels.compilation import are_cached

KERNEL = """
import sys
from kvaudit.kernels.compilation import are_cached, compiled

@compiled
def doubled(value):
    return value + value

if "call" in sys.argv:
    doubled(3)
print(are_cached([doubled]), sum(doubled.stats.cache_hits.values()))
"""


@pytest.fixture
def run_kernel(tmp_path):
    """Run a module with one kernel in a process of its own; returns its two words."""
    script = tmp_path / "one_kernel.py"
    script.write_text(KERNEL)

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, str(script), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    return run


def test_kernel_is_cached_by_its_first_call_and_found_by_the_next_process(run_kernel):
    assert run_kernel() == ["False", "0"]
    assert run_kernel("call") == ["True", "0"]
    assert run_kernel() == ["True", "0"]
    assert run_kernel("call") == ["True", "1"]


def test_cached_code_older_than_a_source_of_the_kernels_is_dropped(run_kernel, tmp_path):
    run_kernel("call")
    for index in Path(tmp_path).rglob("*.nbi"):
        os.utime(index, ns=(0, 0))
    assert run_kernel() == ["False", "0"]
    assert run_kernel("call") == ["True", "0"]


def test_nothing_is_cached_of_no_kernels():
    assert are_cached([])
