from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvaudit import api
from kvaudit.backends.reference import ReferenceBackend
from kvaudit.constants import FailReason
from kvaudit.core.divergence import DivergenceKind
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.snapshot import DigestGrain, Snapshot
from kvaudit.runner.replay.moment_bytes import BytesComparer
from tests.runner.replay.recorded_plans import replay_until

STEPS = (20, 30)


@pytest.fixture
def shots(short_run: Path) -> list[Snapshot]:
    """Two dumps of digests, ten steps apart."""
    moments = {moment.step: moment for moment in api.open_run(short_run).later}
    return [moments[step].read().snapshot for step in STEPS]


@pytest.fixture
def comparer(short_run: Path) -> BytesComparer:
    """At the later one of them."""
    return BytesComparer(replay_until(short_run, STEPS[1])._pool, backend=ReferenceBackend())


def changed(shot: Snapshot, field: str, name: str, *rows: int) -> Snapshot:
    columns = dict(getattr(shot, field))
    values = columns[name].read().copy()
    values[list(rows)] += 1
    columns[name] = ArrayColumn(name=name, values=values)
    return replace(shot, **{field: columns})


def unstamped(shot: Snapshot) -> Snapshot:
    return replace(shot, stamped={}, evidence={})


def old_rows(comparer: BytesComparer, shots: list[Snapshot]) -> np.ndarray:
    """Rows of the later dump whose slots are in the earlier one, and unwritten since."""
    before, now = shots
    rows = np.flatnonzero(np.isin(now.slots, before.slots))
    kept = comparer._pool.history.is_unwritten_since(now.slots[rows], STEPS[0])
    assert kept.any()
    return rows[kept]


def test_digests_that_are_their_stamps_agree(
    comparer: BytesComparer, shots: list[Snapshot]
) -> None:
    for shot, step in zip(shots, STEPS, strict=True):
        result = comparer.compare(shot, step=step)
        assert (len(result.slots), result.divergences, result.num_restamped) == (0, [], 0)
    assert comparer.num_stamps == 4 * sum(shot.num_rows for shot in shots)
    assert comparer.num_unstamped == 0


def test_a_digest_that_is_not_its_stamp_is_one_row_with_all_its_columns(
    comparer: BytesComparer, shots: list[Snapshot]
) -> None:
    bad = changed(changed(shots[1], "digests", "kv.v.1", 3), "digests", "kv.k.0", 3)
    result = comparer.compare(bad, step=STEPS[1])
    slot = int(bad.slots[3])
    assert result.slots.tolist() == [slot]
    [found] = result.divergences
    assert (found.kind, found.slot) == (DivergenceKind.BYTES, slot)
    assert found.column == "kv.k.0 and 1 more column"
    [row] = result.rows
    assert (row.slot, row.columns, row.step) == (slot, ("kv.k.0", "kv.v.1"), STEPS[1])
    assert row.reasons == FailReason.COLUMN_DIGEST_MISMATCH
    assert row.key.step == STEPS[1]


def test_a_slot_that_was_never_stamped_is_not_compared(
    comparer: BytesComparer, shots: list[Snapshot]
) -> None:
    bad = changed(shots[1], "digests", "kv.v.1", 3)
    stamped_step = bad.evidence["stamped_step"].read().copy()
    stamped_step[3] = -1
    column = ArrayColumn(name="stamped_step", values=stamped_step)
    never = replace(bad, evidence={**bad.evidence, "stamped_step": column})
    assert len(comparer.compare(never, step=STEPS[1]).slots) == 0
    assert comparer.num_stamps == 4 * (bad.num_rows - 1)


def test_without_stamps_a_digest_is_held_against_the_dump_before(
    comparer: BytesComparer, shots: list[Snapshot]
) -> None:
    before, now = (unstamped(shot) for shot in shots)
    assert len(comparer.compare(before, step=STEPS[0]).slots) == 0
    rows = old_rows(comparer, shots)
    written = [row for row in range(now.num_rows) if row not in rows]
    bad = changed(now, "digests", "kv.k.1", int(rows[0]), written[0])
    result = comparer.compare(bad, step=STEPS[1])
    # What a step wrote in between may be anything.
    assert result.slots.tolist() == [int(now.slots[rows[0]])]
    assert comparer.num_unstamped == 8


def test_a_stamp_that_is_new_without_a_write_is_a_write_that_the_trace_lacks(
    comparer: BytesComparer, shots: list[Snapshot]
) -> None:
    comparer.compare(shots[0], step=STEPS[0])
    row = int(old_rows(comparer, shots)[0])
    both = changed(changed(shots[1], "digests", "kv.v.0", row), "stamped", "kv.v.0", row)
    result = comparer.compare(both, step=STEPS[1])
    assert len(result.slots) == 0
    assert result.num_restamped == 1
    [found] = result.divergences
    assert (found.kind, found.column) == (DivergenceKind.STAMP, "stamped.v.0")
    assert found.slot == int(shots[1].slots[row])


def test_a_hash_of_a_page_is_not_held_against_that_of_another_moment(
    comparer: BytesComparer, shots: list[Snapshot]
) -> None:
    """It changes with the slots that are live."""
    paged = [replace(unstamped(shot), canary={}, digest_grain=DigestGrain.PAGE) for shot in shots]
    comparer.compare(paged[0], step=STEPS[0])
    every_row = range(paged[1].num_rows)
    assert (
        len(comparer.compare(changed(paged[1], "digests", "kv.k.0", *every_row), step=30).slots)
        == 0
    )
