"""What a pool's trace says of each step, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kvaudit.capture.pool_dump import PoolDump
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.pool_trace import PoolTrace
from kvaudit.constants import LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.core.snapshot import PoolKey
from kvaudit.formats.reader import read_file
from kvaudit.formats.trace_reader import open_trace
from tests.helpers.arrow_files import int64, sequences, snapshot

TAGS = (LaunchTag.TAIL_K_SWA, LaunchTag.TAIL_V_SWA)


class Traced:
    """A trace of a pool that ran request b before, with the steps it has written once it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        key = PoolKey(pool="main", pool_kind=PoolKind.SWA, step=6)
        held = PoolDump(
            snapshot=snapshot(key=key, stamped_columns=("kv.k.0", "kv.v.0")), sequences=sequences()
        )
        self.trace = PoolTrace(folder, held, step=6, metadata={"engine": "toy"})

    def forward(self, step: int, *rows: PoolRow) -> None:
        self.trace.before_forward(rows)
        self.trace.after_forward(step)

    def steps(self) -> list[RecordedStep]:
        plan_path, _ = self.trace.close()
        return list(open_trace(plan_path).steps())

    def state(self) -> CanaryState:
        return read_file(self.folder / "main.state.arrow")


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    return Traced(tmp_path)


def row(request_id: str, positions: range, slots: Sequence[int]) -> PoolRow:
    return PoolRow(
        request_id=request_id,
        positions=positions,
        tokens=np.arange(positions.start, positions.stop, dtype=np.int64) + 100,
        slots=int64(*slots),
        known_tokens=None,
        prompt_len=-1,
    )


def edits_of(step: RecordedStep) -> list[tuple[int, int, list[int]]]:
    return [(row, first, slots.tolist()) for row, first, slots in step.edits]


def test_a_forward_is_a_row_with_its_writes_seeds_and_batch(traced: Traced) -> None:
    traced.forward(7, row("b", range(2, 3), [5, 6, 7]), row("c", range(2), [8, 9]))
    (step,) = traced.steps()
    assert (step.step, step.tags, step.verify) == (7, TAGS, None)
    # The table that request b had before the trace began.
    assert edits_of(step) == [(1, 0, [5, 6])]
    assert step.batch.request_index.tolist() == [1, 2]
    assert step.batch.prefix_lens.tolist() == [2, 0]
    assert step.batch.extend_seq_lens.tolist() == [1, 2]
    write = step.write
    assert write.plan.write_offsets.tolist() == [0, 1, 3]
    assert write.plan.write_seed_slot_indices.tolist() == [6, -1]
    assert (write.input_ids.tolist(), write.positions.tolist()) == ([102, 100, 101], [2, 0, 1])
    assert write.out_cache_loc.tolist() == [7, 8, 9]
    assert write.request_ids == ["b", "c"]
    assert not write.enable_chain_position_assert


def test_positions_that_are_not_stored_are_skipped_and_begin_a_chain(traced: Traced) -> None:
    traced.forward(7, row("c", range(4), [8, 9]))
    traced.forward(8, row("c", range(4, 5), [9, 8]))
    first, second = traced.steps()
    assert first.write.out_cache_loc.tolist() == [-1, -1, 8, 9]
    assert first.write.plan.write_seed_slot_indices.tolist() == [-1]
    # Slot 8 is written again: position 2 has left the window.
    assert edits_of(second) == [(2, 2, [-1])]
    assert second.write.plan.write_seed_slot_indices.tolist() == [9]
    assert traced.state().slot_run_counters == dict.fromkeys(TAGS, 3)


def test_what_changes_between_forwards_stands_in_the_next_row(traced: Traced) -> None:
    traced.forward(7, row("c", range(2), [8, 9]))
    traced.trace.copy_slots(int64(8, 9), int64(10, 11))
    traced.trace.update("c", slots=int64(10, 11), kv_len=None)
    traced.trace.update("unknown", slots=int64(3), kv_len=1)
    traced.trace.forget("b")
    traced.forward(9, row("d", range(1), [12]))
    _, copied, step = traced.steps()
    assert (copied.step, step.step) == (9, 9)
    assert edits_of(copied) == [(2, 0, [10, 11])]
    assert (copied.copies.src.tolist(), copied.copies.dst.tolist()) == ([8, 9], [10, 11])
    assert copied.write is None
    # A request that ends after a copy may have been given the copies.
    assert (step.freed.request_index.tolist(), step.freed.lens.tolist()) == ([1], [2])
    assert step.batch.request_index.tolist() == [3]


def test_copies_of_copies_are_rows_of_their_own(traced: Traced) -> None:
    traced.trace.copy_slots(int64(8), int64(10))
    traced.trace.copy_slots(int64(10), int64(12))
    traced.forward(7, row("c", range(1), [9]))
    first, second = traced.steps()
    assert (first.step, first.write, first.copies.dst.tolist()) == (7, None, [10])
    assert (second.step, second.copies.src.tolist()) == (7, [10])
    assert second.write.out_cache_loc.tolist() == [9]


def test_rejected_positions_are_no_part_of_what_stays(traced: Traced) -> None:
    traced.forward(7, row("c", range(4), [8, 9, 10, 11]))
    traced.trace.update("c", slots=None, kv_len=2)
    traced.trace.forget("c")
    _, last = traced.steps()
    assert (last.step, last.write, last.batch) == (7, None, None)
    assert (last.freed.request_index.tolist(), last.freed.lens.tolist()) == ([2], [2])


def test_a_forward_that_is_given_up_is_no_row(traced: Traced) -> None:
    traced.trace.before_forward([row("c", range(2), [8, 9])])
    traced.trace.update("c", slots=int64(8, 9), kv_len=None)
    traced.forward(8, row("d", range(1), [12]))
    (step,) = traced.steps()
    assert (step.step, step.write.request_ids) == (8, ["d"])
    assert edits_of(step) == [(1, 0, [5, 6])]


def test_a_forward_of_another_pool_is_no_row(traced: Traced) -> None:
    traced.forward(7)
    traced.forward(8, row("c", range(1), []))
    first, *others = traced.steps()
    # The first step has what ran before the trace began.
    assert (first.step, edits_of(first), first.write) == (7, [(1, 0, [5, 6])], None)
    assert others == []


def test_the_state_counts_the_recorders_own_launches(traced: Traced) -> None:
    traced.forward(7, row("c", range(2), [8, 9]))
    traced.forward(8, row("c", range(2, 3), [8, 9, 10]))
    traced.steps()
    state = traced.state()
    assert (state.key.pool, state.key.step) == ("main", 8)
    assert state.active_tags == TAGS
    assert state.kernel_run_counters == dict.fromkeys(TAGS, 2)
    assert state.slot_run_counters == dict.fromkeys(TAGS, 3)
    assert (state.violation_write_index, state.ring_capacity, state.sweep_passes) == (0, 0, {})


def test_an_abandoned_trace_leaves_no_file(traced: Traced) -> None:
    traced.forward(7, row("c", range(2), [8, 9]))
    traced.trace.abandon()
    assert list(traced.folder.iterdir()) == []
