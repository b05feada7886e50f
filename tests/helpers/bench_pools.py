"""Small pools and rows of a benchmark."""

from __future__ import annotations

from typing import Any

from kvaudit.bench.options import BenchOptions, Op, RealKv
from kvaudit.bench.pool import BenchPool, build_pool
from kvaudit.core.bench_report import BenchReport, BenchRow, Proof, Yardstick
from kvaudit.core.report import BackendChoice

NUM_ENTRIES = 2048


def options(**changes: Any) -> BenchOptions:
    """A run that takes a moment."""
    return BenchOptions(
        **{
            "ops": (Op.FOLD, Op.VERIFY, Op.WRITE, Op.PLAN),
            "sizes": (NUM_ENTRIES,),
            "real_kv": (RealKv.NONE, RealKv.ALL),
            "bytes_per_token": 64,
            "page_size": 4,
            "request_tokens": 256,
            "repeats": 1,
            **changes,
        }
    )


def pool(num_entries: int = NUM_ENTRIES, **changes: Any) -> BenchPool:
    """Its pool."""
    return build_pool(options(**changes), num_entries)


def row(**changes: Any) -> BenchRow:
    """A row of round figures: 1 M entries of 1,000 bytes in 1 ms, half of the bandwidth."""
    return BenchRow(
        **{
            "op": "verify",
            "real_kv": "all",
            "num_entries": 1_000_000,
            "bytes_per_entry": 1000,
            "seconds": (0.002, 0.001, 0.001),
            "median": 0.001,
            "yardstick": Yardstick(name="read", gb_per_s=2000.0),
            "engine_seconds": 0.0125,
            "reference_seconds_per_entry": 2e-6,
            "proof": Proof(
                reference_entries=23_424, cpu_entries=1_000_000, engine_entries=1_000_000
            ),
            **changes,
        }
    )


def report(*rows: BenchRow, **changes: Any) -> BenchReport:
    """A result that names what could break a page or a terminal."""
    return BenchReport(
        **{
            "command": "kvaudit bench --sizes 1m",
            "backend": BackendChoice(
                name="cuda", device="<b>GPU</b> & co", reason="the best that runs here"
            ),
            "machine": {"system": "Linux x86_64", "numba": "0.68.1"},
            "settings": {
                "bytes_per_token": 1000,
                "layers": 1,
                "page_size": 16,
                "request_tokens": 32768,
                "repeats": 3,
                "seed": 0,
            },
            "timed_by": "CUDA events",
            "rows": rows or (row(),),
            **changes,
        }
    )
