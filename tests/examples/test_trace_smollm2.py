"""The example traces a real run of over 300 steps, and its replay is clean."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from examples.trace_smollm2 import NEW_TOKENS, trace
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from kvaudit.formats.trace_reader import open_trace
from tests.helpers.auditing import assert_all_covered
from tests.helpers.replays import findings, replayed, said
from tests.helpers.smollm2 import smollm2, smollm2_tokenizer


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smollm2")
    outputs = trace(smollm2(), smollm2_tokenizer(), folder)
    assert sorted(map(len, outputs.values())) == sorted(NEW_TOKENS)
    return folder


def test_a_real_run_is_clean_on_the_host_and_on_the_reference(
    traced: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="kvaudit.runner.live")
    report = replayed(traced)
    assert report.verdict is Verdict.CLEAN, (findings(report), report.incomplete_reasons)
    assert_all_covered(report, Family.INDEX, Family.RECORDS, Family.BYTES)
    steps = [step for step in open_trace(traced / "full.plan.arrow").steps() if step.batch]
    assert len(steps) >= 300
    assert sum(len(step.edits.slots) for step in steps) >= 100
    tokens = [
        2 * int(step.batch.prefix_lens.sum() + (step.write.out_cache_loc >= 0).sum())
        for step in steps
    ]
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert lines == [
        f"[canary] step={step} protected_tokens={sum(tokens[:step])} sweep_passes=0 violations=0 "
        "launch_tags_active=2/2"
        for step in (100, 200, 300)
    ]
    assert said(report) == said(replayed(traced, backend="reference"))
