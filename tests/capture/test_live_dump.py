"""Which sequences a flight recorder's dump holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from kvaudit.capture.live_dump import FinishedRow, concerned_rows
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.tables import SequenceRow
from kvaudit.constants import LaunchTag
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.ring_row import RingRow
from kvaudit.runner.live import CachedPrefix, DumpCause, DumpRequest


def _row(name: str, slots: list[int]) -> PoolRow:
    positions = range(len(slots) - 1, len(slots))
    return PoolRow(
        request_id=name,
        positions=positions,
        tokens=np.array([7]),
        slots=np.array(slots),
        known_tokens=np.arange(len(slots) + 1) + 100,
        prompt_len=2,
    )


RUNNING = [_row("a", [4, 5, 6]), _row("b", [8, 9])]


def _concerned(
    *violations: tuple[LaunchTag, int],
    finished: Sequence[FinishedRow] = (),
    cached: Mapping[str, CachedPrefix] | None = None,
    written_step: int = 1,
) -> list[SequenceRow]:
    request = DumpRequest(
        step=9,
        cause=DumpCause.VIOLATION if violations else DumpCause.TRIGGER,
        rows=[RingRow.of([tag, slot, 0, 0, 0, 0, 0, 1]) for tag, slot in violations],
        request_indices=[],
        slots={},
    )
    return concerned_rows(
        request,
        pool_kind=PoolKind.FULL,
        running=RUNNING,
        finished=finished,
        cached=cached or {},
        written_step=np.full(40, written_step),
    )


def test_without_a_violation_it_is_the_whole_batch() -> None:
    prefix = CachedPrefix(slots=torch.tensor([20, 21]))
    rows = _concerned(cached={"cached-1": prefix})
    assert [(row.request_id, row.kv_len, row.state) for row in rows] == [
        ("a", 3, "running"),
        ("b", 2, "running"),
    ]
    assert rows[0].tokens.tolist() == [100, 101, 102]


def test_with_one_it_is_who_holds_its_slot_in_this_pool() -> None:
    assert [row.request_id for row in _concerned((LaunchTag.TAIL_K_FULL, 9))] == ["b"]
    assert _concerned((LaunchTag.TAIL_K_SWA, 9)) == []
    assert _concerned((LaunchTag.TAIL_K_FULL, 30)) == []


def test_a_cached_prefix_keeps_its_position() -> None:
    prefix = CachedPrefix(
        slots=torch.tensor([20, 21]), start_position=4, tokens=torch.tensor([7, 8])
    )
    (row,) = _concerned((LaunchTag.SWEEP_V_FULL, 21), cached={"cached-1": prefix})
    assert (row.request_id, row.start_position, row.kv_len) == ("cached-1", 4, 6)
    assert row.tokens.tolist() == [-1, -1, -1, -1, 7, 8]
    assert row.state == "cached"


def test_a_finished_request_counts_up_to_what_was_written_since() -> None:
    done = FinishedRow(row=_row("done", [30, 31, 32]), step=3)
    tag = LaunchTag.TAIL_K_FULL
    (row,) = _concerned((tag, 31), finished=[done], written_step=3)
    assert (row.request_id, row.kv_len, row.state) == ("done", 3, "finished")
    assert _concerned((tag, 31), finished=[done], written_step=4) == []
