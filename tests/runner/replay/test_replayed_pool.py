from __future__ import annotations

from pathlib import Path

import numpy as np

from kvaudit.core.divergence import DivergenceKind
from kvaudit.core.recorded_step import FreedRequests, RecordedStep, SlotCopies
from tests.runner.replay.recorded_plans import replay_until


def int64(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def test_a_copy_takes_its_record_and_leaves_no_finished_sequence_behind(short_run: Path) -> None:
    pool = replay_until(short_run, 30)._pool
    row = next(iter(pool.tables.row_of.values()))
    source = int(pool.tables.host[row, 4])
    ended = FreedRequests(request_index=int64(row), lens=int64(5))
    pool.change(RecordedStep(step=31, freed=ended))
    kept = {name: slots.tolist() for name, _, slots in pool.tables.finished}
    target = next(slots for slots in kept.values() if slots[-1] == source)[3]
    pool.change(RecordedStep(step=31, copies=SlotCopies(src=int64(source), dst=int64(target))))
    records = pool.canary.records("k.tail", int64(source, target))
    assert records[0].tolist() == records[1].tolist()
    assert records[0].any()
    after = [slots.tolist() for _, _, slots in pool.tables.finished]
    assert all(target not in slots for slots in after)
    assert any(len(slots) == 3 for slots in after)


def test_a_copy_from_or_to_a_wild_slot_is_passed_over(short_run: Path) -> None:
    pool = replay_until(short_run, 30)._pool
    before = pool.canary.records("k.tail", np.arange(96))
    wild = SlotCopies(src=int64(4, 1 << 40, -1), dst=int64(9999, 5, 6))
    pool.change(RecordedStep(step=31, copies=wild))
    assert (pool.canary.records("k.tail", np.arange(96)) == before).all()


def test_a_difference_has_the_holders_of_its_slot(short_run: Path) -> None:
    pool = replay_until(short_run, 30)._pool
    name, row = next(iter(pool.tables.row_of.items()))
    slot = int(pool.tables.host[row, 9])
    found = pool.divergence(DivergenceKind.BYTES, slot, step=30, column="kv.k.0", pair=(1, 2))
    assert (found.slot, found.position) == (slot, 9)
    assert name in found.request_ids
    assert (found.recorded, found.replayed) == (1, 2)
    assert 0 <= found.first_step <= found.last_step == 30
