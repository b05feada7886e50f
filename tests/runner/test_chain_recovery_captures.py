"""Real captures, without their sequences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvaudit import api
from kvaudit.constants import RECORD_POSITION, LaunchTag
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.report import Verdict
from tests.runner.test_chain_recovery import alone

EXAMPLES = Path(__file__).parents[2] / "examples"


def _example(name: str) -> tuple[Dataset, AuditedPool]:
    [pool] = api.open([EXAMPLES / name]).pools
    return alone(pool.snapshot), pool


@pytest.mark.parametrize("name", ["smollm2-clean", "smollm2-digests"])
def test_a_real_capture_has_a_chain_a_prompt_and_is_clean(name: str) -> None:
    dataset, pool = _example(name)
    report = api.audit(dataset, backend="cpu")
    assert report.verdict is Verdict.CLEAN
    [sequences] = pool.sequences
    contents = {
        tuple(sequences.tokens_of(idx)[: int(sequences.kv_lens[idx])].tolist())
        for idx in range(sequences.num_sequences)
    }
    assert len(contents) == sequences.num_sequences == 8
    for counters in report.chains:
        assert (counters.chains, counters.orphans) == (8, 0)
    assert report.coverage.families[Family.BYTES].ratio == 1.0


def test_the_fault_of_a_real_capture_is_found_without_its_sequences() -> None:
    dataset, pool = _example("smollm2-damaged")
    found, known = (
        {(row.tag, row.slot, row.columns) for row in api.audit(each, backend="cpu").violations}
        for each in (dataset, Dataset(pools=[pool]))
    )
    assert found == known == {(LaunchTag.TAIL_V_FULL, 873, ()), (None, 873, ("kv.v.17",))}


def test_a_late_position_of_a_real_capture_is_found() -> None:
    _, pool = _example("smollm2-clean")
    column = pool.snapshot.canary["k.tail"]
    records = column.read().copy()
    records[100, RECORD_POSITION] += 1
    damaged = ArrayColumn(name=column.name, values=records)
    snapshot = replace(pool.snapshot, canary={"k.tail": damaged})
    options = AuditOptions(skip_bytes=True)
    [row] = api.audit(alone(snapshot), backend="cpu", options=options).violations
    assert row.slot == int(pool.snapshot.slots[100])
