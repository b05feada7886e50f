"""The trace of a recorder, which runs or does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from kvaudit.capture.dump_identity import DumpIdentity
from kvaudit.capture.pool_set import PoolSet
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.capture.trace_switch import TraceSwitch
from kvaudit.errors import ConfigError, FileUnwritable
from tests.helpers.pool_rows import row

ROWS = {"FULL": [row("a", range(2), [4, 5])]}


@pytest.fixture
def pools() -> PoolSet:
    kv = [(torch.zeros(16, 4), torch.ones(16, 4))]
    pool = RecordedPool(kv=kv, layout="slot dim", page_size=4, reserved_slots="0-3")
    return PoolSet([pool], content="bytes", identity=DumpIdentity())


def _started(pools: PoolSet, folder: Path, *, digests_every: int = 0) -> TraceSwitch:
    switch = TraceSwitch()
    switch.start(folder, pools, content="digests", step=0, digests_every=digests_every)
    return switch


def test_without_a_trace_nobody_is_told() -> None:
    switch = TraceSwitch()
    switch.before_forward(ROWS)
    switch.update("a", slots=None, kv_len=None)
    switch.copy_slots({"FULL": np.array([4])}, {"FULL": np.array([5])})
    switch.forget("a")
    switch.abandon()
    assert (switch.is_on, switch.after_forward(1)) == (False, None)
    with pytest.raises(ConfigError, match=r"^end_trace: no trace runs"):
        switch.end(1, lambda _: [])


def test_a_trace_begins_with_a_dump_and_ends_with_one(pools: PoolSet, tmp_path: Path) -> None:
    switch = _started(pools, tmp_path)
    assert switch.is_on
    assert (tmp_path / "step-000000" / "full.snapshot.arrow").is_file()
    pools.before_forward(ROWS, last_step=0)
    switch.before_forward(ROWS)
    pools.after_forward(1)
    switch.after_forward(1)
    folders: list[Path] = []
    files = switch.end(1, lambda folder: [folders.append(folder) or folder])
    assert folders == [tmp_path / "step-000001"]
    assert {path.name for path in files} == {"full.plan.arrow", "full.state.arrow", "step-000001"}
    assert not switch.is_on


def test_a_dump_of_digests_is_due_every_so_many_steps(pools: PoolSet, tmp_path: Path) -> None:
    switch = _started(pools, tmp_path, digests_every=2)
    due = []
    for step in (1, 2, 3, 4):
        switch.before_forward(ROWS)
        due.append(switch.after_forward(step))
    switch.abandon()
    assert due == [None, tmp_path / "step-000002", None, tmp_path / "step-000004"]


def test_a_second_trace_and_one_of_no_pool_or_of_half_a_step_are_refused(
    pools: PoolSet, tmp_path: Path
) -> None:
    switch = _started(pools, tmp_path)
    with pytest.raises(ConfigError, match=r"^start_trace: a trace runs"):
        switch.start(tmp_path, pools, content="bytes", step=0, digests_every=0)
    switch.abandon()
    empty = PoolSet((), content="bytes", identity=DumpIdentity())
    with pytest.raises(ConfigError, match=r"^start_trace: no pool is attached"):
        _started(empty, tmp_path)
    pools.before_forward(ROWS, last_step=0)
    with pytest.raises(ConfigError, match=r"^start_trace: a forward is running"):
        _started(pools, tmp_path)


def test_a_first_dump_that_cannot_be_written_leaves_no_trace(
    pools: PoolSet, tmp_path: Path
) -> None:
    (tmp_path / "step-000000").touch()
    with pytest.raises(FileUnwritable):
        _started(pools, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000"]
