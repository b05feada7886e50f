from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.violation import Violation
from kvaudit.runner.replay.run import _Replay
from tests.runner.replay.recorded_plans import verify_launch
from tests.runner.replay.test_step_plans import step_after


@pytest.fixture
def at_step(short_run: Path):
    return step_after(short_run, 20)


def launched(at_step, **changes: object) -> tuple[_Replay, list[Violation]]:
    """The violations of one row."""
    replay, recorded = at_step
    row = replace(recorded, **changes)
    plans = replay._planner.planned(row)
    replay._pool.canary.launch(plans.planned, step=row.step)
    return replay, list(replay._ring.step(plans, step=row.step))


def test_a_failed_entry_has_its_step_its_position_and_its_request(at_step) -> None:
    replay, recorded = at_step
    name, row = next(iter(replay._pool.tables.row_of.items()))
    slots = replay._pool.tables.host[row, :6].tolist()
    shifted = [*slots[:4], slots[5], slots[4]]
    replay, rows = launched(at_step, verify=verify_launch(recorded, slots=shifted), write=None)
    found = {(found.slot, found.expected_position, found.position) for found in rows}
    assert found == {(slots[5], 4, 5), (slots[4], 5, 4)}
    assert {found.step for found in rows} == {21}
    assert all(name in found.request_ids for found in rows)
    assert {found.tag for found in rows} == {LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL}
    assert replay._ring.total == len(rows) == 4
    assert replay._ring.by_tag[LaunchTag.TAIL_V_FULL] == 2


def test_a_step_without_news_has_no_rows(at_step) -> None:
    replay, rows = launched(at_step)
    assert rows == []
    assert replay._ring.total == 0


def test_a_failed_input_assert_has_the_expected_position(at_step) -> None:
    write = at_step[1].write
    expected = replace(
        write,
        expected_input_tokens=write.input_ids,
        expected_input_positions=write.positions + 1,
    )
    _, rows = launched(at_step, write=expected)
    assert len(rows) == 2 * len(write.input_ids)
    first = rows[0]
    assert first.reasons == FailReason.WRITE_POSITION_MISMATCH
    assert first.expected_position == first.position + 1
    assert first.expected_token == first.token


def test_a_slot_outside_the_pool_is_nobodys(at_step) -> None:
    write = at_step[1].write
    slots = write.out_cache_loc.copy()
    slots[0] = 1 << 40
    _, rows = launched(at_step, write=replace(write, out_cache_loc=slots))
    assert {row.slot for row in rows} == {1 << 40}
    assert {row.request_ids for row in rows} == {()}
    assert rows[0].reasons == FailReason.SLOT_OUT_OF_RANGE
