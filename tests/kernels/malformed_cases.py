"""Launches on malformed input, and the script that pins what the reference makes of them.

    python -m tests.kernels.malformed_cases

rewrites `tests/data/vectors/malformed_<op>.json`: of DESIGN.md 3's malformed inputs our reference
is the author. Each file maps a case to its `in` and `out`; plan cases that a host refuses have the
`out` null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from kvaudit.constants import CHAIN_ANCHOR
from tests.helpers.vectors import VECTORS
from tests.kernels.implementations import REFERENCE
from tests.kernels.launches import (
    Arguments,
    outcome,
    plan_launch,
    ring,
    verify_launch,
    write_launch,
)

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

# Slot 1 heads a chain, slot 2 follows it; slot 3 was never stamped.
RECORDS = [
    [0, 0, 0, 0],
    [11, 0, CHAIN_ANCHOR, 0],
    [12, 1, 0x89CD2ABFBEBC0649, 0],
    [0, 0, 0, 0],
]
OUTSIDE = [-1, -2, 4, 5, INT64_MIN, INT64_MAX]
THREE = {"tokens": [11, 12, 13], "positions": [0, 1, 2]}


def verify_cases() -> dict[str, Arguments]:
    """Malformed verify launches by name."""
    right = {"records": RECORDS, "slots": [1, 2, 3], "prevs": [-1, 1, 2]}
    return {
        "slots outside the pool": verify_launch(
            records=RECORDS,
            slots=OUTSIDE,
            prevs=[-1] * 6,
            verify_expected_tokens=[1, 2, 3, 4, 5, 6],
            verify_expected_positions=[9] * 6,
        ),
        "slots outside the pool, tokens unchecked": verify_launch(
            records=RECORDS,
            slots=OUTSIDE,
            prevs=[7] * 6,
            verify_expected_tokens=[1, 2, 3, 4, 5, 6],
            check_verify_expected_token=False,
        ),
        "predecessors outside the pool": verify_launch(
            records=RECORDS,
            slots=[2, 2, 2, 1, 1, 3],
            prevs=[4, 5, INT64_MAX, INT64_MIN, -2, 4],
            verify_expected_positions=[1, 0, 1, 0, 0, 0],
            verify_expected_tokens=[12, 13, -1, 11, 11, 0],
        ),
        "num_valid negative": verify_launch(**right, verify_num_valid=[-1]),
        "num_valid the least": verify_launch(**right, verify_num_valid=[INT32_MIN]),
        "num_valid past the capacity": verify_launch(**right, verify_num_valid=[INT32_MAX]),
        "num_valid below the capacity": verify_launch(**right, verify_num_valid=[2]),
        "disabled": verify_launch(**right, enable=[0]),
        "enable neither 0 nor 1": verify_launch(**right, enable=[-7]),
        "pool without slots": verify_launch(records=[], slots=[0, 1, -1], prevs=[-1, 0, 5]),
        "capacity 0": verify_launch(records=RECORDS, slots=[], prevs=[], verify_num_valid=[5]),
        "ring overflows": verify_launch(
            records=RECORDS, slots=OUTSIDE, prevs=[-1] * 6, violation_ring=ring(4)
        ),
        "ring without rows": verify_launch(
            records=RECORDS, slots=OUTSIDE, prevs=[-1] * 6, violation_ring=ring(0)
        ),
        "write index past the capacity": verify_launch(
            records=RECORDS, slots=OUTSIDE, prevs=[-1] * 6, violation_write_index=[100]
        ),
        "write index negative": verify_launch(
            records=RECORDS, slots=OUTSIDE, prevs=[-1] * 6, violation_write_index=[-3]
        ),
        "write index wraps": verify_launch(
            records=RECORDS, slots=OUTSIDE, prevs=[-1] * 6, violation_write_index=[INT32_MAX]
        ),
        "expectations at the ends of int64": verify_launch(
            records=[RECORDS[0], [INT64_MIN, INT64_MAX, -1, -1]],
            slots=[1, 1, 1],
            prevs=[0, 0, 1],
            verify_expected_tokens=[INT64_MIN, INT64_MAX, -2],
            verify_expected_positions=[INT64_MAX, INT64_MIN, -1],
            real_kv_hashes=[-1, 0, 2**63],
        ),
        "token -1 stored and expected": verify_launch(
            records=[RECORDS[0], [-1, 0, CHAIN_ANCHOR, 0]], slots=[1], prevs=[-1]
        ),
        "reason bits not wanted": verify_launch(
            records=RECORDS, slots=[1, 2, 3], prevs=[-1, 1, 2], reason_bits=[]
        ),
        "records in wider rows": verify_launch(
            records=[[*record, 77, 78] for record in RECORDS], slots=[1, 2, 3], prevs=[-1, 1, 2]
        ),
        "counters at the end of int64": verify_launch(
            **right, slot_run_counter=[INT64_MAX], kernel_run_counter=[INT64_MAX]
        ),
    }


def write_cases() -> dict[str, Arguments]:
    """Malformed write launches by name."""
    fresh = {"records": RECORDS, **THREE}
    return {
        "slots negative": write_launch(**fresh, slots=[-1, 2, INT64_MIN]),
        "slots past the pool": write_launch(**fresh, slots=[1, 4, INT64_MAX]),
        "slots past the pool advance the chain": write_launch(
            **fresh,
            slots=[9, 2, 3],
            write_seed_slot_indices=[1],
            expected_input_tokens=[0, 12, 0],
            expected_input_positions=[0, 0, 2],
        ),
        "seed past the pool": write_launch(**fresh, slots=[1, 2, 3], write_seed_slot_indices=[4]),
        "seed the largest": write_launch(
            **fresh, slots=[1, 2, 3], write_seed_slot_indices=[INT64_MAX]
        ),
        "seed past the pool without entries": write_launch(
            **fresh, slots=[1, 2, 3], write_offsets=[3, 3], write_seed_slot_indices=[9]
        ),
        "seed the least": write_launch(
            **fresh, slots=[1, 2, 3], write_seed_slot_indices=[INT64_MIN]
        ),
        "seed 0 asserts": write_launch(**fresh, slots=[1, 2, 3], write_seed_slot_indices=[0]),
        "slot 0 is written": write_launch(**fresh, slots=[0, 0, 1]),
        "num_valid_reqs negative": write_launch(
            **fresh, slots=[1, 2, 3], write_num_valid_reqs=[-1]
        ),
        "num_valid_reqs past the capacity": write_launch(
            **fresh, slots=[1, 2, 3], write_num_valid_reqs=[INT32_MAX]
        ),
        "offsets decrease": write_launch(
            **fresh,
            slots=[1, 2, 3],
            write_offsets=[2, 1, 3],
            write_seed_slot_indices=[9, 1],
            write_num_valid_reqs=[2],
        ),
        "offsets outside the token arrays": write_launch(
            **fresh,
            slots=[1, 2, 3],
            write_offsets=[INT64_MIN, 2, INT64_MAX, 1],
            write_seed_slot_indices=[-1, 2, -1],
            write_num_valid_reqs=[3],
        ),
        "no tokens": write_launch(
            records=RECORDS, tokens=[], positions=[], slots=[], write_offsets=[0, 5]
        ),
        "no requests": write_launch(
            **fresh, slots=[1, 2, 3], write_offsets=[0], write_seed_slot_indices=[]
        ),
        "pool without slots": write_launch(
            records=[], **THREE, slots=[0, -1, 2], write_seed_slot_indices=[0]
        ),
        "ring overflows": write_launch(**fresh, slots=[7, 8, 9], violation_ring=ring(2)),
        "ring without rows": write_launch(**fresh, slots=[7, 8, 9], violation_ring=ring(0)),
        "write index past the capacity": write_launch(
            **fresh, slots=[7, 8, 9], violation_write_index=[16]
        ),
        "write index negative": write_launch(**fresh, slots=[7, 8, 9], violation_write_index=[-2]),
        "positions at the ends of int64": write_launch(
            records=[*RECORDS[:3], [5, -1, 6, 7]],
            tokens=[INT64_MIN, INT64_MAX, -1],
            positions=[0, INT64_MAX, INT64_MIN],
            slots=[1, 2, 0],
            write_seed_slot_indices=[3],
            expected_input_tokens=[INT64_MIN, INT64_MIN, -1],
            expected_input_positions=[-1, INT64_MAX, INT64_MIN],
            real_kv_hashes=[2**64 - 1, 1, 2**63],
        ),
        "chain assert off": write_launch(
            **fresh,
            slots=[1, 2, 3],
            write_seed_slot_indices=[3],
            enable_chain_position_assert=[0],
        ),
        "records in wider rows": write_launch(
            records=[[*record, 77, 78] for record in RECORDS], **THREE, slots=[3, 2, 1]
        ),
    }


TABLE = [[0, 0, 0, 0], [1, 2, 3, 4], [5, -1, 7, 8]]
TOKENS = {
    "req_to_verify_expected_tokens": [[0, 0, 0], [31, 32, 33], [41, -1, 43]],
    "req_to_verify_expected_tokens_valid_lens": [4, 2],
}


def plan_cases() -> dict[str, Arguments]:
    """Malformed plan launches by name."""
    pair = {"requests": [1, 2], "prefixes": [2, 3], "extends": [1, 2], "table": TABLE}
    return {
        "nothing malformed": plan_launch(**pair),
        "no batch": plan_launch(requests=[], prefixes=[], extends=[], table=TABLE),
        "negative lengths": plan_launch(
            requests=[1, 2], prefixes=[-5, INT64_MIN], extends=[-1, INT64_MIN], table=TABLE
        ),
        "padding rows": plan_launch(
            requests=[0, 1, 0], prefixes=[3, 2, INT64_MAX], extends=[2, 1, 4], table=TABLE
        ),
        "padding row of the largest lengths": plan_launch(
            requests=[0], prefixes=[INT64_MAX], extends=[INT64_MAX], table=TABLE
        ),
        "more than the capacity": plan_launch(
            requests=[1, 2, 1, 2], prefixes=[4, 4, 4, 4], extends=[1, 0, 1, 0], table=TABLE
        ),
        "exactly the capacity": plan_launch(
            requests=[1, 2, 1], prefixes=[4, 4, 4], extends=[1, 0, 1], table=TABLE
        ),
        "prefixes whose sum overflows": plan_launch(
            requests=[1, 2, 1],
            prefixes=[INT64_MAX, INT64_MAX, INT64_MAX],
            extends=[0, 0, 0],
            table=TABLE,
        ),
        "extends whose sum overflows": plan_launch(
            requests=[1, 2, 1],
            prefixes=[0, 0, 0],
            extends=[INT64_MAX, INT64_MAX, 5],
            table=TABLE,
        ),
        "prefix past the table, seed clamped": plan_launch(
            requests=[1], prefixes=[INT64_MAX], extends=[1], table=TABLE
        ),
        "window of the largest length": plan_launch(**pair, swa_window_size=INT64_MAX),
        "window negative": plan_launch(**pair, swa_window_size=-3),
        "window 1": plan_launch(**pair, swa_window_size=1),
        "tokens past the valid length": plan_launch(**pair, **TOKENS),
        "token offset negative": plan_launch(**pair, **TOKENS, kv_token_id_vs_position_offset=-1),
        "token offset at the ends of int64": plan_launch(
            **pair, **TOKENS, kv_token_id_vs_position_offset=INT64_MAX
        ),
        "map with negative and large slots": plan_launch(
            **pair, full_to_swa_index_mapping=[0, 9, -1, 7, INT64_MIN, 3, 4, 2, 1]
        ),
        "map that holds the largest slot": plan_launch(
            **pair, full_to_swa_index_mapping=[0, INT64_MAX, 2, 3, 4, INT64_MAX, 6, INT64_MAX]
        ),
        "request past the table": plan_launch(requests=[3], prefixes=[1], extends=[1], table=TABLE),
        "request negative": plan_launch(requests=[-1], prefixes=[1], extends=[1], table=TABLE),
        "request past the table, nothing read": plan_launch(
            requests=[3], prefixes=[0], extends=[2], table=TABLE
        ),
        "seed alone past the table": plan_launch(
            requests=[3], prefixes=[2], extends=[2], table=TABLE, swa_window_size=-1
        ),
        "prefix past the table": plan_launch(requests=[1], prefixes=[5], extends=[0], table=TABLE),
        "table without columns": plan_launch(
            requests=[1], prefixes=[1], extends=[1], table=np.zeros((2, 0)), swa_window_size=-1
        ),
        "map too short": plan_launch(**pair, full_to_swa_index_mapping=[0, 9, 8]),
        "token pool too narrow": plan_launch(
            **pair, **TOKENS | {"req_to_verify_expected_tokens": [[0], [31], [41]]}
        ),
        "token pool too short": plan_launch(
            **pair, **TOKENS | {"req_to_verify_expected_tokens": [[0, 0, 0], [31, 32, 33]]}
        ),
    }


CASES = {"verify": verify_cases, "write": write_cases, "plan": plan_cases}


def listed(launch: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Arrays as lists."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in launch
    }


def pinned(op: str) -> dict[str, Any]:
    """What the file of an operation must hold."""
    cases = {}
    for name, launch in CASES[op]().items():
        try:
            out = listed(outcome(REFERENCE, op, launch).items())
        except ValueError:
            out = None
        cases[name] = {"in": listed(launch.items()), "out": out}
    return cases


def rendered(cases: dict[str, Any]) -> str:
    """The cases as JSON, an argument a line: a change of the meaning reads well as a difference."""
    lines = json.dumps(cases, indent=1)
    return re.sub(r"\[[^\]\[{}]*\]", lambda found: re.sub(r"\s+", " ", found[0]), lines) + "\n"


def main() -> None:
    """Write the three files."""
    for op in CASES:
        (VECTORS / f"malformed_{op}.json").write_text(rendered(pinned(op)))


if __name__ == "__main__":
    main()
