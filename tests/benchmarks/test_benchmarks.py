"""Every benchmark runs, proves its input and prints its line; at such a size no figure counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SMALL = {
    "bench_chain": ["--slots", "2000", "4000", "8000", "--repeats", "1"],
    "bench_diagnosis": ["--slots", "20000", "--faults", "28", "--repeats", "1"],
    "bench_layer0_separation": ["--tokens", "500"],
    "bench_layer0_noise": [
        *("--device", "cpu", "--vocab", "400", "--tokens", "64"),
        *("--hidden", "256", "--heads", "2", "--head-dim", "64"),
    ],
    "bench_compare": [
        "--slots",
        "2000",
        "--digest-layers",
        "1",
        "--bytes-per-token",
        "64",
        "--repeats",
        "1",
    ],
    "bench_identity": ["--slots", "4096", "--vocab", "300", "--heads", "2", "--head-dim", "16"],
    "bench_audit": ["--gib", "0.002", "--layers", "1", "--bytes-per-token", "64"],
}


def test_every_benchmark_is_run_here():
    assert {path.stem for path in Path(__file__).parent.glob("bench_*.py")} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_benchmark_proves_its_input_and_prints_rates(name, tmp_path):
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name(f"{name}.py"), *SMALL[name]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GB/s" in done.stdout
