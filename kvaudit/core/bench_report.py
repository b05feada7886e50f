"""What a benchmark measured, before any screen: the result of `kvaudit bench`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kvaudit.core.report import BackendChoice

BENCH_SCHEMA: Final = "kvaudit.bench/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a row's outputs were compared with before it was timed; all of it was equal.

    Fields:
        reference_entries: entries compared with the reference, on the very input that is timed.
        cpu_entries: entries compared with the CPU's kernels; None where those are what is timed.
        engine_entries: entries compared with the engine-shaped launch; None where it did not run.
    """

    reference_entries: int
    cpu_entries: int | None = None
    engine_entries: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The proof in the JSON document."""
        return {
            "reference_entries": self.reference_entries,
            "cpu_entries": self.cpu_entries,
            "engine_entries": self.engine_entries,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """A bandwidth measured in the same run, which a row's rate is a fraction of.

    Fields:
        name: `read` or `write` of the memory that the kernels use, or `host read`.
        gb_per_s: 10^9 bytes a second.
    """

    name: str
    gb_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """One operation at one size.

    Fields:
        op: fold, verify, storm, write, plan, file or dump.
        real_kv: none, partial or all; None where the operation has no mode.
        num_entries: slots folded or dumped, else entries checked, written or planned.
        bytes_per_entry: bytes that an entry must move, whatever the kernel does.
        seconds: of each repeat, in the order in which they ran.
        median: the middle one.
        yardstick: the bandwidth that the rate is a fraction of.
        engine_seconds: median of the engine-shaped launch; None where it did not run.
        reference_seconds_per_entry: of the reference, on the entries that it proved; None where it
            was not timed.
        proof: what the outputs were compared with.
    """

    op: str
    real_kv: str | None
    num_entries: int
    bytes_per_entry: int
    seconds: Sequence[float]
    median: float
    yardstick: Yardstick
    engine_seconds: float | None = None
    reference_seconds_per_entry: float | None = None
    proof: Proof

    @property
    def gb_per_s(self) -> float:
        """10^9 bytes a second."""
        return self.num_entries * self.bytes_per_entry / self.median / 1e9

    @property
    def entries_per_s(self) -> float:
        """Entries a second."""
        return self.num_entries / self.median

    @property
    def fraction(self) -> float:
        """The rate as a fraction of the yardstick."""
        return self.gb_per_s / self.yardstick.gb_per_s

    @property
    def engine_speedup(self) -> float | None:
        """How many times faster than the engine-shaped launch; None where it did not run."""
        return None if self.engine_seconds is None else self.engine_seconds / self.median

    @property
    def reference_speedup(self) -> float | None:
        """How many times faster than the reference, by the entry; None where it was not timed."""
        if self.reference_seconds_per_entry is None:
            return None
        return self.reference_seconds_per_entry * self.entries_per_s

    def to_dict(self) -> dict[str, Any]:
        """The row in the JSON document."""
        return {
            "op": self.op,
            "real_kv": self.real_kv,
            "entries": self.num_entries,
            "bytes_per_entry": self.bytes_per_entry,
            "median_ms": self.median * 1e3,
            "repeats_ms": [seconds * 1e3 for seconds in self.seconds],
            "gb_per_s": self.gb_per_s,
            "entries_per_s": self.entries_per_s,
            "yardstick": self.yardstick.name,
            "yardstick_gb_per_s": self.yardstick.gb_per_s,
            "fraction": self.fraction,
            "engine_speedup": self.engine_speedup,
            "reference_speedup": self.reference_speedup,
            "proof": self.proof.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """A whole run.

    Fields:
        command: the command line that repeats it, every option spelled out.
        backend: what computed, on what, and why it.
        machine: the host and the versions of what ran, by name.
        settings: what the sizes mean: bytes a token, page size and the like, by name.
        timed_by: what was timed and how, a sentence.
        rows: in the order in which they ran.
        left_out: operations that were asked for and have nothing to measure, with the reason.
    """

    command: str
    backend: BackendChoice
    machine: Mapping[str, str]
    settings: Mapping[str, int]
    timed_by: str
    rows: Sequence[BenchRow]
    left_out: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """The one JSON document."""
        return {
            "schema": BENCH_SCHEMA,
            "command": self.command,
            "backend": self.backend.to_dict(),
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "timed_by": self.timed_by,
            "rows": [row.to_dict() for row in self.rows],
            "left_out": list(self.left_out),
        }
