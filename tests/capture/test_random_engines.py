"""Whatever an engine does, its recorder's dumps are clean, and one flipped bit is one slot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from tests.helpers.auditing import assert_all_covered, audited, bad_columns, bad_slots
from tests.helpers.random_engine import RandomEngine

SEEDS = range(24)
NUM_STEPS = 40
DUMP_EVERY = 13


def test_the_seeds_do_all_that_engines_do() -> None:
    events: Counter[str] = Counter()
    for seed in SEEDS:
        engine = RandomEngine(seed)
        for _ in range(NUM_STEPS):
            engine.step()
        events += engine.events
    expected = {"join", "leave", "preempt", "fork", "chunk", "reject", "replace", "reuse"}
    assert events.keys() == expected
    assert min(events.values()) >= len(SEEDS), events


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_engine_dumps_clean_until_a_bit_flips(seed: int, tmp_path: Path) -> None:
    engine = RandomEngine(seed)
    step = 0
    while step < NUM_STEPS or not engine.live_slots():
        engine.step()
        step += 1
        if step % DUMP_EVERY == 0 and engine.live_slots():
            engine.recorder.dump(tmp_path / str(step))
            assert_clean(tmp_path / str(step))
    engine.recorder.dump(tmp_path / "last")
    assert_clean(tmp_path / "last")

    slot = engine.pick(engine.live_slots())
    column = engine.flip_a_bit(slot)
    engine.recorder.dump(tmp_path / "damaged")
    report = audited(tmp_path / "damaged")
    assert report.verdict is Verdict.VIOLATIONS
    assert (bad_slots(report), bad_columns(report)) == ({slot}, {column})


def assert_clean(folder: Path) -> None:
    report = audited(folder)
    assert report.verdict is Verdict.CLEAN, (report.violations[:3], report.findings[:3])
    assert_all_covered(report, Family.INDEX, Family.RECORDS, Family.BYTES)
