"""Each fault of the live cache is named by its rule alone, and shows in the text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.break_smollm2 import (
    BY_NAME,
    FAULTS,
    changed_texts,
    main,
    serve_and_break,
)
from examples.capture_smollm2 import prompts_of
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from tests.examples.test_capture_smollm2 import REQUESTS
from tests.helpers.auditing import assert_all_covered, audited
from tests.helpers.smollm2 import smollm2, smollm2_tokenizer

# Who reads what was broken, and how many slots that is.
BROKEN = {
    "page-swap": (["tale", "code"], 32),
    "late-writer": (["code"], 4),
    "zero-tail": (["capital"], 16),
    "foreign-prefix": (["code"], 13),
    "torn-row": (["tale"], 1),
}


def _served(folder: Path, name: str | None) -> dict[str, list[int]]:
    fault = None if name is None else BY_NAME[name]
    return serve_and_break(smollm2(), prompts_of(smollm2_tokenizer()), fault=fault, dump=folder)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    folder = tmp_path_factory.mktemp("sound")
    outputs = _served(folder, None)
    report = audited(folder)
    assert report.verdict is Verdict.CLEAN
    assert_all_covered(report, Family.INDEX, Family.RECORDS, Family.BYTES)
    assert outputs.keys() == REQUESTS
    return outputs


@pytest.mark.parametrize("name", BY_NAME)
def test_a_fault_of_the_live_cache_is_named_and_shows_in_the_text(
    name: str, sound: dict[str, list[int]], tmp_path: Path
) -> None:
    outputs = _served(tmp_path, name)
    report = audited(tmp_path)
    (finding,) = (found for found in report.findings if not found.rule.startswith("KV0"))
    tainted, num_slots = BROKEN[name]
    assert finding.rule == FAULTS[BY_NAME[name]]
    assert (finding.request_ids, len(finding.slots)) == (tainted, num_slots)
    assert finding.evidence["rows"] == report.violations_total
    assert list(changed_texts(smollm2_tokenizer(), sound, outputs)) == tainted


def test_the_script_prints_both_texts_and_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dump stays, for the command that the report ends with."""
    monkeypatch.setattr("examples.break_smollm2.load_model", smollm2)
    monkeypatch.setattr("examples.break_smollm2.load_tokenizer", smollm2_tokenizer)
    main(["--fault", "late-writer", "--dumps", str(tmp_path)])
    out = capsys.readouterr().out
    assert "late-writer: A write of a request that is done lands in its last page" in out
    assert "code, sound: " in out
    assert "code, broken: " in out
    assert "the text of the other 7 requests is the same" in out
    assert "KV203 late-writer" in out
    (step,) = re.findall(r"^  kvaudit blame (\S+) \d+$", out, flags=re.MULTILINE)
    assert Path(step).is_file()
