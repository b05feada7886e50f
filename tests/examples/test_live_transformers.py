"""The live demo serves the same text, costs little, and finds what it breaks."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from examples.live_transformers import FAULT_STEP, SideBySide, main, parsed, serve_side_by_side
from kvaudit.capture.live_canary import LiveCanary
from kvaudit.constants import RealKvHashMode
from kvaudit.core.report import Verdict
from kvaudit.runner.live import CanaryConfig, CanaryMode
from tests.examples.test_capture_smollm2 import REQUESTS, verified
from tests.helpers.auditing import audited, bad_slots
from tests.helpers.smollm2 import smollm2, smollm2_tokenizer

NEW_TOKENS = 24
MAX_OVERHEAD = 0.05


def _served(config: CanaryConfig, **options: Any) -> SideBySide:
    from examples.capture_smollm2 import prompts_of

    return serve_side_by_side(
        smollm2(),
        prompts_of(smollm2_tokenizer()),
        config=config,
        new_tokens=NEW_TOKENS,
        **options,
    )


def test_the_text_is_the_same_and_the_canarys_calls_cost_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Processor time of its thread counts, which no other process of the machine lengthens."""
    seconds: list[float] = []

    def timed(name: str) -> None:
        call = getattr(LiveCanary, name)

        def measured(canary: LiveCanary, *args: object) -> None:
            start = time.thread_time()
            call(canary, *args)
            seconds.append(time.thread_time() - start)

        monkeypatch.setattr(LiveCanary, name, measured)

    timed("before_forward")
    timed("after_forward")
    both = _served(CanaryConfig(mode=CanaryMode.LOG, sweep_interval=8))
    assert both.plain.texts.keys() == REQUESTS
    assert both.watched.texts == both.plain.texts
    (state,) = both.canary.read_states().values()
    assert state.violation_write_index == 0
    assert all(state.kernel_run_counters[tag] > 0 for tag in state.active_tags)
    own = median(map(sum, zip(seconds[::2], seconds[1::2], strict=True)))
    assert own <= MAX_OVERHEAD * median(both.plain.step_ms) / 1e3
    assert len(both.plain.step_ms) == len(both.watched.step_ms) == both.canary.step
    assert re.search(r"the text of 8 requests is the same", "\n".join(both.lines()))


def test_a_changed_record_is_told_of_in_the_frozen_lines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="kvaudit"):
        both = _served(CanaryConfig(mode=CanaryMode.LOG), fault="record")
    lines = [record.message for record in caplog.records if "kv_canary" in record.message]
    # The token is in the chain: the slot behind it does not fit it any more.
    assert lines
    assert all(" fail_reason=verify_chain_hash " in line for line in lines)
    assert both.watched.texts.keys() == REQUESTS


def test_the_dump_of_a_changed_bit_of_k_names_the_slot(tmp_path: Path) -> None:
    config = CanaryConfig(mode=CanaryMode.DUMP, real_kv_hash_mode=RealKvHashMode.ALL)
    both = _served(config, dumps=tmp_path, fault="kv")
    assert both.watched.texts.keys() == REQUESTS
    (folder,) = tmp_path.iterdir()
    assert FAULT_STEP < int(folder.name.removeprefix("step-")) < both.canary.step
    report = audited(folder)
    assert report.verdict is Verdict.VIOLATIONS
    assert bad_slots(report) == {both.slot}
    code, document = verified(folder)
    assert code == 1
    rows = document["violations"]["rows"]
    assert ["tale"] in [row["request_ids"] for row in rows]
    for row in rows:
        assert (row["tag"], row["slot"]) == ("TAIL_K_FULL", both.slot)
        assert row["reasons"] == ["verify_real_kv_hash"]


def test_a_fault_in_k_is_looked_for_with_its_hash() -> None:
    assert parsed([]).hash == "none"
    assert parsed(["--fault", "kv"]).hash == "all"
    assert parsed(["--fault", "record"]).hash == "none"


def test_the_script_prints_both_sides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("examples.live_transformers.load_model", smollm2)
    monkeypatch.setattr("examples.live_transformers.load_tokenizer", smollm2_tokenizer)
    main(["--rounds", "1", "--new-tokens", "4"])
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("without the canary ")
    assert out[1].startswith("the canary adds ")
    assert out[2] == "the text of 8 requests is the same"
