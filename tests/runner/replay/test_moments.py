from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvaudit import api
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.divergence import DivergenceKind
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import DumpMoment
from kvaudit.runner.replay.moments import MomentComparer, MomentResult
from tests.runner.replay.recorded_plans import replay_until

STEP = 30


@pytest.fixture
def comparer(short_run: Path) -> MomentComparer:
    return MomentComparer(replay_until(short_run, STEP - 1)._pool, bytes_comparer=None)


@pytest.fixture
def moment(short_run: Path, comparer: MomentComparer) -> AuditedPool:
    """The dump of the next step, with that step in the replay."""
    pool = replay_until(short_run, STEP)._pool
    comparer._pool = pool
    comparer.compared = np.zeros(pool.canary.num_slots, dtype=np.bool_)
    return next(each for each in api.open_run(short_run).later if each.step == STEP).read()


def damaged(moment: AuditedPool, name: str, word: int, *rows: int) -> AuditedPool:
    """The same dump with other records."""
    records = moment.snapshot.canary[name].read().copy()
    records[list(rows), word] += 1
    column = ArrayColumn(name=f"canary.{name}", values=records)
    canary = {**moment.snapshot.canary, name: column}
    return replace(moment, snapshot=replace(moment.snapshot, canary=canary))


def kinds(result: MomentResult) -> set[DivergenceKind]:
    return {each.kind for each in result.divergences}


def test_a_dump_of_the_run_agrees_and_is_counted(
    comparer: MomentComparer, moment: AuditedPool
) -> None:
    assert comparer.compare(moment, step=STEP).total == 0
    assert comparer.num_records == 2 * moment.snapshot.num_rows
    running = sum(
        int(length)
        for length, state in zip(
            moment.sequences[0].kv_lens, moment.sequences[0].states, strict=True
        )
        if state is SequenceState.RUNNING
    )
    assert comparer.num_positions == running > 20
    assert np.flatnonzero(comparer.compared).tolist() == moment.snapshot.slots.tolist()


@pytest.mark.parametrize(("word", "label"), [(0, "token"), (1, "position"), (2, "prev_hash")])
def test_a_word_of_a_record_is_named(
    comparer: MomentComparer, moment: AuditedPool, word: int, label: str
) -> None:
    result = comparer.compare(damaged(moment, "v.tail", word, 5), step=STEP)
    [found] = result.divergences
    assert found.column == f"canary.v.tail {label}"
    assert found.slot == moment.snapshot.slots[5]
    assert found.last_step == STEP
    assert found.recorded == found.replayed + 1
    assert result.rows == []


def test_the_hash_of_bytes_is_not_the_traces_to_say(
    comparer: MomentComparer, moment: AuditedPool
) -> None:
    assert comparer.compare(damaged(moment, "k.tail", 3, 5, 6), step=STEP).total == 0


def test_a_slot_that_differs_is_told_of_once(comparer: MomentComparer, moment: AuditedPool) -> None:
    bad = damaged(moment, "k.tail", 0, 5)
    assert comparer.compare(bad, step=STEP).total == 1
    assert comparer.compare(bad, step=STEP + 10).total == 0
    assert comparer.compare(damaged(moment, "k.tail", 0, 5, 6), step=STEP + 20).total == 1


def test_records_that_the_trace_does_not_know_are_not_compared(
    comparer: MomentComparer, moment: AuditedPool
) -> None:
    slot = int(moment.snapshot.slots[5])
    comparer._pool.history.known["k.tail"][slot] = False
    assert comparer.compare(damaged(moment, "k.tail", 0, 5), step=STEP).total == 0
    assert comparer.num_records == 2 * moment.snapshot.num_rows - 1


def test_another_slot_in_a_requests_table_is_named(
    comparer: MomentComparer, moment: AuditedPool
) -> None:
    [sequences] = moment.sequences
    running = sequences.states.index(SequenceState.RUNNING)
    slots = sequences.slots.copy()
    place = int(sequences.slot_offsets[running]) + 2
    slots[place] += 1
    changed = replace(moment, sequences=[replace(sequences, slots=slots)])
    result = comparer.compare(changed, step=STEP)
    [found] = result.divergences
    assert kinds(result) == {DivergenceKind.TABLE}
    assert (found.position, found.request_ids) == (2, (sequences.request_ids[running],))
    assert (found.recorded, found.replayed) == (slots[place], slots[place] - 1)


def test_a_request_that_has_more_than_the_table_is_a_difference(
    comparer: MomentComparer, moment: AuditedPool
) -> None:
    """Its row ends before."""
    [sequences] = moment.sequences
    running = sequences.states.index(SequenceState.RUNNING)
    row = comparer._pool.tables.row_of[sequences.request_ids[running]]
    comparer._pool.tables.host[row, 1:] = 0
    result = comparer.compare(moment, step=STEP)
    assert result.total == sequences.kv_lens[running] - 1
    assert {each.replayed for each in result.divergences} == {0}


def test_nothing_is_said_of_a_dump_in_mid_step(
    comparer: MomentComparer, moment: AuditedPool
) -> None:
    bad = damaged(moment, "k.tail", 0, 5)
    mid_step = replace(bad, snapshot=replace(bad.snapshot, at=DumpMoment.MID_STEP))
    assert comparer.compare(mid_step, step=STEP).total == 0
    assert not comparer.compared.any()
    assert comparer.mid_step == [moment.snapshot.path]


def test_what_the_replay_begins_with_is_taken_as_it_is(
    comparer: MomentComparer, moment: AuditedPool
) -> None:
    bad = damaged(moment, "k.tail", 0, 5)
    assert comparer.compare(bad, step=STEP, is_start=True).total == 0
    assert comparer.num_records == 0
