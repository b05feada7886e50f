"""`storm`: `verify` of a pool in which every record is wrong, so that all threads append rows at once.

Beside `verify` of mode none, it says what the rows cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.bench.options import Op
from kvaudit.bench.verify_workload import VerifyWorkload
from kvaudit.bench.workload import HostArrays, Sample
from kvaudit.constants import RECORD_POSITION


class StormWorkload(VerifyWorkload):
    """Entries that fail one and all; which rows the ring keeps is free."""

    op = Op.STORM

    def inputs(self) -> dict[str, NDArray[Any]]:
        """What a launch reads, by name; no record holds its position."""
        inputs = super().inputs()
        records = inputs["canary_records"].copy()
        records[:, RECORD_POSITION] ^= np.uint64(1)
        return inputs | {"canary_records": records}

    def observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """Every entry's reason bits, and all counters."""
        counters = ("slot_run_counter", "kernel_run_counter")
        return {**self.engine_observed(outputs), **{name: outputs[name] for name in counters}}

    def engine_observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """Every entry's reason bits, and the number of rows."""
        names = ("reason_bits", "violation_write_index")
        return {name: outputs[name] for name in names}

    def sample(self) -> Sample:
        """Some of the entries, whose reason bits count."""
        part = super().sample()
        return Sample(
            workload=part.workload,
            expected=lambda outputs: {"reason_bits": part.expected(outputs)["reason_bits"]},
        )
