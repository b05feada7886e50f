from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from kvaudit.constants import LaunchTag
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.plan import PlanDump, PlannedLaunch, VerifyPlan
from kvaudit.core.rope import Rope
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import DigestGrain, PoolKey, Snapshot
from kvaudit.formats.trace_reader import open_trace
from kvaudit.render.file_facts import file_facts
from tests.helpers.arrow_files import canary_state, recorded_steps, write_trace


def snapshot() -> Snapshot:
    records = np.zeros((4, 4), dtype=np.int64)
    records[1:, 0] = 11
    data = np.zeros((4, 32), dtype=np.uint8)
    return Snapshot(
        path="a.snapshot.arrow",
        slots=np.array([2, 3, 4, 9], dtype=np.int64),
        num_slots=16,
        page_size=2,
        key=PoolKey(rank=3, step=120),
        canary={"k.tail": ArrayColumn(name="canary.k.tail", values=records)},
        kv={
            name: ArrayKvColumn(name=name, data=data, read_bytes=32, dtype="bfloat16")
            for name in ("kv.k.0", "kv.k.1", "kv.v.0")
        }
        | {"kv.v.1": ArrayKvColumn(name="kv.v.1", data=data, read_bytes=30)},
        stamped={"kv.k.0": ArrayColumn(name="stamped.k.0", values=np.zeros(4, dtype=np.int64))},
        metadata={"engine": "toy"},
        checksummed=False,
    )


def sequences() -> Sequences:
    return Sequences(
        path="a.sequences.arrow",
        request_ids=("A", "B"),
        token_offsets=np.array([0, 3, 5], dtype=np.int64),
        tokens=np.array([11, 12, 13, 21, 22], dtype=np.int64),
        slot_offsets=np.array([0, 2, 2], dtype=np.int64),
        slots=np.array([2, 3], dtype=np.int64),
        kv_lens=np.array([2, 0], dtype=np.int64),
        start_positions=np.zeros(2, dtype=np.int64),
        prompt_lens=np.array([-1, -1], dtype=np.int64),
        states=(SequenceState.RUNNING, None),
        extra_keys=(None, "lora-1"),
    )


def plan() -> PlanDump:
    entries = VerifyPlan(
        verify_slot_indices=np.array([2, 3, 0], dtype=np.int64),
        verify_expected_tokens=np.array([11, 12, -1], dtype=np.int64),
        verify_expected_positions=np.array([0, 1, 0], dtype=np.int64),
        verify_prev_slot_indices=np.array([-1, 2, 0], dtype=np.int64),
        num_valid=2,
        enable=False,
    )
    launch = PlannedLaunch(
        step=120, tags=(LaunchTag.TAIL_K_FULL,), plan=entries, check_verify_expected_token=True
    )
    return PlanDump(path="a.plan.arrow", launches=(launch,))


def test_a_snapshot_is_described_by_key_geometry_and_columns() -> None:
    facts = file_facts(snapshot())
    assert facts["kind"] == "snapshot"
    assert facts["digest_grain"] == "slot"
    assert facts["key"] == {"pool": "FULL", "pool_kind": "FULL", "rank": 3, "step": 120}
    assert facts["rows"] == 4
    assert facts["slots"] == "2-9, sparse of 16"
    assert facts["records"] == {"k.tail": "3 of 4 stamped"}
    assert facts["kv"] == {
        "kv.k.0-1 kv.v.0": "(bfloat16, 32 B a slot)",
        "kv.v.1": "(dtype unknown, 32 B a slot, digests cover 30 B)",
    }
    assert (facts["stamped"], facts["digests"]) == ("kv.k.0", None)
    assert facts["checksummed"] is False
    assert facts["metadata"] == {"engine": "toy"}


def test_sequences_are_described_one_by_one() -> None:
    facts = file_facts(sequences())
    assert facts["kind"] == "sequences"
    assert (facts["rows"], facts["tokens"], facts["slots"]) == (2, 5, 2)
    assert facts["sequences"] == {
        "A": "positions 0-1, 3 tokens, 2 slots, running",
        "B": "no positions, 2 tokens, 0 slots, extra key lora-1",
    }


def test_a_plan_is_described_launch_by_launch() -> None:
    facts = file_facts(plan())
    assert facts["kind"] == "plan"
    assert facts["launches"] == {"step 120 row 0": "TAIL_K_FULL, 2 entries of 3, disabled"}


def test_states_and_traces_have_facts_of_their_own(tmp_path: Path) -> None:
    assert file_facts(canary_state())["kind"] == "state"
    trace = open_trace(write_trace(tmp_path / "a.arrow", recorded_steps()))
    assert file_facts(trace)["steps"] == "4-9"


def test_facts_are_json_values() -> None:
    for content in (snapshot(), sequences(), plan()):
        assert json.loads(json.dumps(file_facts(content)))["file"] == content.path


def test_a_row_of_a_file_with_digests_of_pages_is_a_page() -> None:
    """Slots 2 to 9 are of pages 1, 2 and 4."""
    paged = replace(snapshot(), canary={}, kv={}, digest_grain=DigestGrain.PAGE)
    facts = file_facts(paged)
    assert (facts["rows"], facts["digest_grain"]) == (3, "page")
    assert file_facts(snapshot())["rows"] == 4


def test_a_rotation_is_said_in_words() -> None:
    rope = Rope(inverse_frequencies=np.array([1.0, 0.5]), head_dim=8)
    facts = file_facts(replace(snapshot(), metadata={"rope": rope.to_json(), "engine": "toy"}))
    assert facts["metadata"] == {
        "rope": "4 of 8 elements, half layout, slowest 0.5 rad a position",
        "engine": "toy",
    }
