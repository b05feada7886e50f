"""Pools of other kinds: a window, slot 0 in use; and traces that say anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvaudit.capture import ForwardRow, RecordedPool, Recorder
from kvaudit.constants import LaunchTag
from kvaudit.core.coverage import Family
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.recorded_step import (
    FreedRequests,
    RecordedBatch,
    RecordedStep,
    SlotCopies,
    TableEdits,
)
from kvaudit.core.report import Verdict
from kvaudit.errors import KvauditError
from tests.helpers.decode_run import DecodeRun
from tests.helpers.random_engine import RandomEngine
from tests.helpers.replays import findings, first_difference, replayed, rewrite_trace, said
from tests.helpers.toy_engine import PAGE_SIZE, ToyEngine
from tests.runner.replay.recorded_plans import verify_launch

WINDOW = 8
BACKENDS = ["reference", "cpu"]


class WindowEngine(ToyEngine):
    """A pool of the last few positions: slots go round, and a prefill stores only what stays."""

    def pool(self) -> RecordedPool:
        return replace(super().pool(), name="swa", pool_kind=PoolKind.SWA, window=WINDOW)

    def forward(self, positions: range) -> None:
        slots = [
            PAGE_SIZE + position % (2 * WINDOW)
            for position in range(max(0, positions.stop - WINDOW), positions.stop)
        ]
        row = ForwardRow(
            request_id="a",
            positions=positions,
            tokens=[position % 7 for position in positions],
            slots=slots,
        )
        self.recorder.before_forward([row])
        for position, slot in zip(
            range(positions.stop - len(slots), positions.stop), slots, strict=True
        ):
            if position in positions:
                self.write(slot, position % 7, position)
        self.recorder.after_forward()


class SlotZeroEngine(ToyEngine):
    """Every slot holds a token, slot 0 too."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.free_pages.append(0)

    def pool(self) -> RecordedPool:
        return replace(super().pool(), reserved_slots="none")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sweep_interval", ["0", "4"])
def test_a_window_pool_is_replayed_within_its_window(
    tmp_path: Path, backend: str, sweep_interval: str
) -> None:
    engine = WindowEngine(Recorder())
    engine.recorder.start_trace(tmp_path, digests_every=5)
    engine.forward(range(19))
    for position in range(19, 40):
        engine.forward(range(position, position + 1))
    engine.recorder.forget("a")
    engine.recorder.end_trace()
    report = replayed(tmp_path, backend=backend, environ={"SWEEP_INTERVAL": sweep_interval})
    assert report.verdict is Verdict.CLEAN, (findings(report), report.incomplete_reasons)
    counters = {tag.tag: tag for tag in report.tags}
    # 21 steps look back on a window each, of which the engine's table has all but one position.
    assert counters["TAIL_K_SWA"].checked == 21 * WINDOW - report_padding(report)
    assert report_padding(report) < 21 * 2


def report_padding(report) -> int:
    """Entries of one launch that have no slot."""
    return report.coverage.families[Family.RECORDS].details["skipped_padding"] // 2


def test_a_pool_whose_slot_0_is_real_is_shifted_and_named_as_the_engine_numbers_it(
    tmp_path: Path,
) -> None:
    engine = SlotZeroEngine(Recorder())
    engine.recorder.start_trace(tmp_path, digests_every=4)
    engine.join("a", list(range(40, 46)))
    for _ in range(10):
        engine.step()
    engine.leave("a")
    engine.recorder.end_trace()
    assert engine.recorder.num_stamped > 10
    assert said(replayed(tmp_path)) == said(replayed(tmp_path, backend="reference"))
    assert replayed(tmp_path).verdict is Verdict.CLEAN

    def to_slot_1(recorded: RecordedStep) -> RecordedStep:
        if recorded.step != 5 or recorded.write is None:
            return recorded
        return replace(recorded, write=replace(recorded.write, out_cache_loc=np.array([1])))

    rewrite_trace(tmp_path, to_slot_1)
    report = replayed(tmp_path, until=6)
    assert first_difference(report)["last_step"] == 6
    assert {row.slot for row in report.violations} >= {1}
    assert said(report) == said(replayed(tmp_path, until=6, backend="reference"))


# Numbers at which indices, shifts and 32 bits end.
WILD = (-(1 << 63), -2, -1, 0, 1, 5, 40, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1)


class _Scrambler:
    """Puts numbers into a trace that no engine would write, and that the format allows."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, recorded: RecordedStep) -> RecordedStep:
        if self._rng.random() > 0.4:
            return recorded
        changes: list[Callable[[RecordedStep], RecordedStep]] = [self._tables, self._verify]
        if recorded.write is not None and recorded.batch is not None:
            changes += [self._write, self._batch]
        change = changes[self._rng.integers(len(changes))]
        try:
            return change(recorded)
        except KvauditError:
            return recorded

    def _wild(self, values: np.ndarray, least: int = WILD[0], most: int = WILD[-1]) -> np.ndarray:
        changed = values.copy()
        if len(changed):
            value = WILD[self._rng.integers(len(WILD))]
            changed[self._rng.integers(len(changed))] = min(max(value, least), most)
        return changed

    def _write(self, recorded: RecordedStep) -> RecordedStep:
        write = recorded.write
        plan = replace(
            write.plan,
            write_offsets=self._wild(write.plan.write_offsets),
            write_seed_slot_indices=self._wild(write.plan.write_seed_slot_indices),
            num_valid_reqs=int(self._rng.integers(-1, 9)),
        )
        slots = self._wild(write.out_cache_loc)
        return replace(recorded, write=replace(write, plan=plan, out_cache_loc=slots))

    def _batch(self, recorded: RecordedStep) -> RecordedStep:
        batch = RecordedBatch(
            request_index=self._wild(recorded.batch.request_index, 0, 50),
            prefix_lens=self._wild(recorded.batch.prefix_lens, 0, 300),
            extend_seq_lens=self._wild(recorded.batch.extend_seq_lens, 0, 300),
        )
        return replace(recorded, batch=batch)

    def _tables(self, recorded: RecordedStep) -> RecordedStep:
        few = np.ones(3, dtype=np.int64)
        return replace(
            recorded,
            copies=SlotCopies(src=self._wild(few), dst=self._wild(few + 1)),
            freed=FreedRequests(request_index=self._wild(few, 1, 90), lens=self._wild(few, 0, 400)),
            edits=TableEdits(
                request_index=self._wild(few[:1], 1, 40),
                positions=self._wild(few[:1], 0, 40),
                lens=few[:1] * 3,
                slots=self._wild(few),
            ),
        )

    def _verify(self, recorded: RecordedStep) -> RecordedStep:
        slots = self._wild(np.arange(5, dtype=np.int64)).tolist()
        verify = verify_launch(recorded, slots=slots, enable=bool(self._rng.integers(2)))
        tags = [None, (LaunchTag.SWEEP_K_FULL,), (LaunchTag.HEAD_K_FULL,), ()]
        return replace(recorded, verify=verify, tags=tags[self._rng.integers(len(tags))])


@pytest.mark.parametrize("seed", range(8))
def test_whatever_a_trace_says_ends_in_a_report_and_in_the_same_one(
    seed: int, tmp_path: Path
) -> None:
    engine = RandomEngine(seed)
    engine.recorder.start_trace(tmp_path, digests_every=7)
    for _ in range(20):
        engine.step()
    engine.recorder.end_trace()
    assert rewrite_trace(tmp_path, _Scrambler(seed)) > 2
    environ = {"SWEEP_INTERVAL": str(seed % 3)}
    report = replayed(tmp_path, environ=environ)
    assert report.exit_code in {0, 1, 5}
    assert said(report) == said(replayed(tmp_path, backend="reference", environ=environ))


def test_a_step_of_64_requests_at_context_256_takes_less_than_5_ms_of_a_processor(
    tmp_path: Path,
) -> None:
    """Time of the processor, since other work on the machine moves the clock's."""
    DecodeRun(num_requests=64, context=256).write(tmp_path, num_steps=300)
    assert replayed(tmp_path, until=20).verdict is Verdict.CLEAN
    started = time.process_time()
    assert replayed(tmp_path).verdict is Verdict.CLEAN
    assert time.process_time() - started < 300 * 0.005
