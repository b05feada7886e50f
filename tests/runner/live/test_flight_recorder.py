"""Dumps at the border of a step: of what, how often, and that nothing stops for them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
import torch

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.ring_row import RingRow
from kvaudit.errors import ConfigError, FileUnwritable
from kvaudit.runner.live.config import CanaryConfig, CanaryMode
from kvaudit.runner.live.flight_recorder import (
    DumpCause,
    DumpRequest,
    FlightRecorder,
    teller_of,
)
from kvaudit.runner.live.violation_manager import (
    ViolationBatch,
    log_violations,
    raise_violations,
)
from tests.helpers.live_engine import PAGE_SIZE, LiveEngine


def _row(slot: int, tag: int = LaunchTag.TAIL_K_FULL) -> RingRow:
    return RingRow(
        tag=tag,
        slot=slot,
        position=0,
        token=0,
        expected_token=-1,
        chain_hash=0,
        expected_aux=0,
        reasons=FailReason.VERIFY_CHAIN_HASH_MISMATCH,
    )


class Recording:
    """An engine in mid-service and a recorder whose dumps are kept."""

    def __init__(self, *, max_dumps: int = 4, **engine: Any) -> None:
        self.engine = LiveEngine(CanaryConfig(), **{"num_requests": 3, **engine})
        self.engine.batch()
        self.batch = self.engine.batch()
        self.dumps: list[DumpRequest] = []
        self.is_triggered = False
        self.recorder = FlightRecorder(
            write=self.dumps.append, triggered=lambda: self.is_triggered, max_dumps=max_dumps
        )
        self.num_steps = 0

    def violate(self, *rows: RingRow) -> None:
        self.recorder.tell(
            ViolationBatch(rows=rows, total=len(rows), ring_capacity=8, step=self.num_steps)
        )

    def step(self, **changes: Any) -> None:
        self.num_steps += 1
        given = {"batch": self.batch, "pools": list(self.engine.pools.values()), **changes}
        self.recorder.step(self.num_steps, **given)

    def slots_of(self, request: int) -> list[int]:
        return self.engine.req_to_token[request, :4].tolist()


def test_the_first_violation_is_dumped_with_its_request_and_the_pages_around_it() -> None:
    recording = Recording()
    slot = recording.engine.slot(2, 0)
    recording.violate(_row(slot))
    recording.step()
    (dump,) = recording.dumps
    assert (dump.step, dump.cause) == (1, DumpCause.VIOLATION)
    assert [row.slot for row in dump.rows] == [slot]
    assert dump.request_indices == [2]
    page = slot // PAGE_SIZE * PAGE_SIZE
    neighbours = range(page - PAGE_SIZE, page + 2 * PAGE_SIZE)
    expected = sorted({*neighbours, *recording.slots_of(2)})
    assert dump.slots[PoolKind.FULL].tolist() == expected


def test_a_trigger_that_fails_is_logged_once_and_violations_are_dumped_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unreadable() -> bool:
        raise PermissionError("the folder cannot be read")

    recording = Recording()
    recording.recorder = FlightRecorder(
        write=recording.dumps.append, triggered=unreadable, max_dumps=4
    )
    recording.step()
    recording.violate(_row(recording.engine.slot(1, 0)))
    recording.step()
    assert [dump.cause for dump in recording.dumps] == [DumpCause.VIOLATION]
    assert caplog.text.count("the trigger failed") == 1


def test_later_violations_are_logged_and_not_dumped(caplog: pytest.LogCaptureFixture) -> None:
    recording = Recording()
    for slot in (5, 6, 7):
        recording.violate(_row(slot))
        recording.step()
    assert len(recording.dumps) == 1
    texts = [record.getMessage() for record in caplog.records]
    assert sum(text.startswith("kv_canary violation: ") for text in texts) == 3
    assert sum("dumped step 1 (violation): 1 violations" in text for text in texts) == 1


def test_a_trigger_dumps_every_request_of_the_batch_each_time_it_is_pulled() -> None:
    recording = Recording()
    recording.step()
    recording.is_triggered = True
    recording.step()
    recording.step()
    recording.is_triggered = False
    recording.step()
    assert [dump.step for dump in recording.dumps] == [2, 3]
    dump = recording.dumps[0]
    assert (dump.cause, dump.rows, dump.request_indices) == (DumpCause.TRIGGER, (), [1, 2, 3])
    slots = sorted(slot for request in (1, 2, 3) for slot in recording.slots_of(request))
    assert dump.slots[PoolKind.FULL].tolist() == slots


@pytest.mark.parametrize("max_dumps", [1, 3])
def test_no_more_than_max_dumps_are_taken(max_dumps: int) -> None:
    recording = Recording(max_dumps=max_dumps)
    recording.is_triggered = True
    recording.violate(_row(5))
    for _ in range(6):
        recording.step()
    assert len(recording.dumps) == max_dumps
    assert recording.dumps[0].cause is DumpCause.VIOLATION
    assert recording.recorder.dumps_left == 0


@pytest.mark.parametrize("max_dumps", [-1, 0])
def test_a_recorder_without_a_dump_left_takes_none(max_dumps: int) -> None:
    recording = Recording(max_dumps=max_dumps)
    recording.is_triggered = True
    recording.step()
    assert recording.dumps == []


def test_a_writer_that_fails_is_logged_and_serving_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recording = Recording()

    def fail(request: DumpRequest) -> None:
        raise FileUnwritable("disk full", path=f"dumps/{request.step}")

    recording.recorder = FlightRecorder(write=fail, triggered=lambda: True, max_dumps=2)
    for _ in range(3):
        recording.step()
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2
    assert "disk full" in caplog.text


def test_all_requests_that_share_a_slot_are_concerned_and_padding_rows_are_none() -> None:
    recording = Recording()
    shared = recording.engine.slot(1, 1)
    recording.engine.req_to_token[3, 1] = shared
    recording.batch = replace(
        recording.batch,
        req_pool_indices=torch.tensor([0, 3, 1]),
    )
    recording.violate(_row(shared))
    recording.step()
    assert recording.dumps[0].request_indices == [1, 3]


def test_wild_slots_of_rows_and_tables_are_left_out() -> None:
    recording = Recording()
    recording.engine.req_to_token[2, 1] = 10_000
    recording.engine.req_to_token[2, 2] = -7
    recording.violate(_row(1 << 62), _row(-3), _row(recording.engine.slot(2, 0)), _row(1, tag=99))
    recording.step()
    (dump,) = recording.dumps
    assert dump.request_indices == [2]
    assert len(dump.rows) == 4
    assert dump.slots[PoolKind.FULL].min() >= 0
    assert dump.slots[PoolKind.FULL].max() < recording.engine.num_slots


def test_a_window_pools_rows_are_in_its_own_slots() -> None:
    recording = Recording(window=4)
    mapping = torch.zeros(recording.engine.num_slots, dtype=torch.int64)
    of_request = recording.slots_of(2)
    mapping[of_request] = torch.tensor([20, 21, 22, 23])
    recording.batch = replace(recording.batch, full_to_swa_index_mapping=mapping)
    recording.violate(_row(22, LaunchTag.TAIL_K_SWA))
    recording.step()
    (dump,) = recording.dumps
    assert dump.request_indices == [2]
    assert dump.slots[PoolKind.FULL].tolist() == of_request
    assert dump.slots[PoolKind.SWA].tolist() == list(range(20, 26))


def test_steps_that_came_planned_have_rows_and_neighbours_alone() -> None:
    recording = Recording()
    recording.violate(_row(6))
    recording.step(batch=None)
    (dump,) = recording.dumps
    assert dump.request_indices == []
    assert dump.slots[PoolKind.FULL].tolist() == list(range(4, 10))


def test_each_mode_tells_whom_its_name_says_and_a_teller_takes_their_place() -> None:
    assert teller_of(CanaryMode.LOG, recorder=None, tell=None) is log_violations
    assert teller_of(CanaryMode.RAISE, recorder=None, tell=None) is raise_violations
    assert teller_of(CanaryMode.RAISE, recorder=None, tell=print) is print
    recorder = Recording().recorder
    assert teller_of(CanaryMode.DUMP, recorder=recorder, tell=None) == recorder.tell


def test_a_dump_that_would_not_be_taken_is_refused() -> None:
    recorder = Recording().recorder
    for mode, given, tell in (
        (CanaryMode.DUMP, None, None),
        (CanaryMode.LOG, recorder, None),
        (CanaryMode.DUMP, recorder, print),
    ):
        with pytest.raises(ConfigError):
            teller_of(mode, recorder=given, tell=tell)
