"""One pool: what a dump names, what is saved and when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from kvaudit.capture.pool_recorder import PoolRecorder
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.capture.slot_view import GatheredColumn
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError
from tests.helpers.pool_rows import row

KEY = PoolKey(step=1)


@pytest.fixture
def pool() -> RecordedPool:
    kv = [(torch.zeros(16, 4), torch.ones(16, 4))]
    return RecordedPool(kv=kv, layout="slot dim", page_size=4, reserved_slots="0-3")


def run(recorder: PoolRecorder, *rows: PoolRow, step: int = 1) -> None:
    recorder.before_forward(rows, KEY)
    recorder.after_forward(step)


def dumped(recorder: PoolRecorder):
    return recorder.dump(KEY, request_ids=None, content="bytes")


def test_a_table_is_as_long_as_what_was_run(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    recorder.before_forward([row("a", range(3), [4, 5, 6])], KEY)
    assert dumped(recorder).sequences.num_sequences == 0
    recorder.after_forward(1)
    assert dumped(recorder).sequences.slots_of(0).tolist() == [4, 5, 6]


def test_a_forward_that_failed_leaves_no_trace(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    recorder.before_forward([row("a", range(3), [4, 5, 6])], KEY)
    run(recorder, row("b", range(2), [8, 9]))
    assert list(dumped(recorder).sequences.request_ids) == ["b"]
    assert recorder.num_stamped == 2


def test_a_dump_gathers_only_when_it_is_read_and_a_saved_one_at_once(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    run(recorder, row("a", range(2), [4, 5]))
    assert isinstance(dumped(recorder).snapshot.kv["kv.k.0"], GatheredColumn)
    recorder.forget("a")
    run(recorder, row("b", range(1), [5]), step=2)
    (saved,) = recorder.take_given_away()
    assert isinstance(saved.snapshot.kv["kv.k.0"], ArrayKvColumn)


def test_requests_that_finished_together_are_saved_together(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    run(recorder, row("a", range(2), [4, 5]), row("b", range(2), [8, 9]))
    for request_id in ("a", "b"):
        recorder.forget(request_id)
    run(recorder, row("c", range(2), [5, 8]), step=2)
    (saved,) = recorder.take_given_away()
    assert list(saved.sequences.request_ids) == ["a", "b"]
    assert saved.snapshot.slots.tolist() == [4, 5, 8, 9]
    assert list(dumped(recorder).sequences.request_ids) == ["c", "a"]


def test_what_could_not_be_written_is_still_there(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    for step, slot in ((1, 4), (2, 5)):
        run(recorder, row(f"a{step}", range(1), [slot]), step=step)
        recorder.forget(f"a{step}")
        run(recorder, row(f"b{step}", range(1), [slot]), step=step)
    given = recorder.take_given_away()
    first, second = next(given), next(given)
    given.close()
    pools = [saved.snapshot.key.pool for saved in (first, second)]
    assert pools == ["FULL.finished-000001", "FULL.finished-000002"]
    assert [saved is second for saved in recorder.take_given_away()] == [True]
    assert not list(recorder.take_given_away())


def test_a_sequence_is_saved_once_and_shrinks_with_each_slot_it_loses(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    run(recorder, row("a", range(4), [4, 5, 6, 7]))
    recorder.forget("a")
    for step, slot in ((2, 7), (3, 5)):
        run(recorder, row(f"b{step}", range(1), [slot]), step=step)
    assert len(list(recorder.take_given_away())) == 1
    sequences = dumped(recorder).sequences
    cached = list(sequences.request_ids).index("a")
    assert sequences.states[cached] == "cached"
    assert sequences.kv_lens[cached] == 1


def test_a_live_request_is_never_saved_away(pool: RecordedPool) -> None:
    """Its slots being written by another is a fault that the audit must see."""
    recorder = PoolRecorder(pool, content="bytes")
    run(recorder, row("a", range(2), [4, 5]))
    run(recorder, row("b", range(1), [5]), step=2)
    assert not list(recorder.take_given_away())
    assert dumped(recorder).sequences.slots_of(0).tolist() == [4, 5]


def test_updates_of_a_request_that_is_not_live_are_ignored(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    recorder.update("nobody", known_tokens=np.array([1]), slots=np.array([4]), kv_len=None)
    recorder.forget("nobody")
    assert dumped(recorder).sequences.num_sequences == 0


def test_slots_past_the_pool_are_refused(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    run(recorder, row("a", range(1), [4]))
    outside = np.array([16])
    with pytest.raises(ConfigError, match=r"^a: slot 16 of pool FULL"):
        recorder.update("a", known_tokens=None, slots=outside, kv_len=None)
    with pytest.raises(ConfigError, match=r"^dst: slot 16 of pool FULL"):
        recorder.copy_slots(np.array([4]), outside, step=1, key=KEY)


def test_rejected_positions_are_no_longer_judged(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    run(recorder, row("a", range(5), [4, 5, 6, 7, 8]))
    recorder.update("a", known_tokens=np.array([0, 10, 20, 99]), slots=None, kv_len=3)
    sequences = dumped(recorder).sequences
    assert (sequences.kv_lens.tolist(), sequences.slots_of(0).tolist()) == ([3], [4, 5, 6])
    run(recorder, row("a", range(3, 4), [4, 5, 6, 7], tokens=np.array([0, 10, 20, 30])), step=2)
    assert dumped(recorder).sequences.slots_of(0).tolist() == [4, 5, 6, 7]


def test_a_shorter_table_ends_at_the_length_given_with_it(pool: RecordedPool) -> None:
    recorder = PoolRecorder(pool, content="bytes")
    run(recorder, row("a", range(5), [4, 5, 6, 7, 8]))
    recorder.update("a", known_tokens=None, slots=np.array([4, 5, 9]), kv_len=3)
    sequences = dumped(recorder).sequences
    assert (sequences.start_positions.tolist(), sequences.kv_lens.tolist()) == ([0], [3])
    assert sequences.slots_of(0).tolist() == [4, 5, 9]


def test_a_table_with_slots_allocated_ahead_is_refused(pool: RecordedPool) -> None:
    """It would shift every position."""
    recorder = PoolRecorder(pool, content="bytes")
    with pytest.raises(ConfigError, match="a: 4 slots for 3 positions"):
        recorder.before_forward([row("a", range(3), [4, 5, 6, 7])], KEY)
    run(recorder, row("a", range(3), [4, 5, 6]))
    with pytest.raises(ConfigError, match="a: 4 slots for 3 positions"):
        recorder.update("a", known_tokens=None, slots=np.array([4, 5, 6, 7]), kv_len=None)


def test_a_finished_sequence_is_saved_before_another_pool_writes_on_its_memory() -> None:
    """Groups of layers may share one buffer: what one frees, another takes."""
    buffer = torch.arange(64, dtype=torch.float32)
    by_four = RecordedPool(
        kv=[buffer.view(16, 4)], layout="slot dim", page_size=1, reserved_slots="none"
    )
    by_eight = replace(by_four, name="wide", kv=[buffer.view(8, 8)])
    recorder, other = (PoolRecorder(pool, content="bytes") for pool in (by_four, by_eight))
    run(recorder, row("a", range(3), [4, 9, 6]), row("b", range(1), [12]))
    recorder.forget("a")
    recorder.forget("b")
    written = other.memory_of(np.array([4]))  # what slots 8 and 9 lie on
    recorder.before_forward([], KEY, elsewhere=written)
    buffer[32:40] = 0
    (saved,) = recorder.take_given_away()
    assert list(saved.sequences.request_ids) == ["a"]
    assert saved.snapshot.kv["kv.kv.0"].read_rows(2, 3).view(np.float32).tolist() == [
        [36, 37, 38, 39]
    ]
    assert [dumped(recorder).sequences.slots_of(i).tolist() for i in (0, 1)] == [[4], [12]]
