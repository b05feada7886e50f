from __future__ import annotations

import pytest

from kvaudit.diagnosis import log_coverage
from kvaudit.diagnosis.log_coverage import LogCoverage
from kvaudit.importers.engine_log import read_engine_log
from tests.helpers.engine_logs import OTHER_LINES, RECORDS, T02, log_of, rows


def _coverage(text: str) -> LogCoverage:
    coverage = LogCoverage()
    for event in read_engine_log([text.encode()]):
        coverage.add(event)
    return coverage


def _rules(text: str) -> list[str]:
    return [note.rule for note in _coverage(text).not_checked()]


WHOLE = log_of(rows({**RECORDS, 4: RECORDS[8]}))


def test_a_whole_log_of_a_canary_that_ran_lost_nothing() -> None:
    assert _rules(WHOLE) == []


def test_overflow_stall_and_a_refused_start_are_steps_that_were_not_checked() -> None:
    texts = {note.rule: note.text for note in _coverage(OTHER_LINES).not_checked()}
    assert list(texts) == ["KV002", "KV003", "KV001", ""]
    assert "70,000 entries where 65,536 fit" in texts["KV002"]
    assert "HEAD_K_FULL, TAIL_K_FULL stood still at the check of step 200" in texts["KV003"]
    assert "MLATokenToKVPool" in texts["KV001"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WHOLE.replace("overflow=False", "overflow=True"), id="overflow"),
        pytest.param(WHOLE.replace("violations=2", "violations=1024"), id="full"),
        pytest.param(
            OTHER_LINES.splitlines()[5].replace("capacity=1024", "capacity=2") + "\n" + WHOLE,
            id="a smaller ring",
        ),
    ],
)
def test_a_full_ring_ends_the_log(text: str) -> None:
    assert "KV005" in _rules(text)


def test_counted_rows_that_are_not_printed_are_told() -> None:
    [note] = _coverage(T02).not_checked()
    assert (note.rule, note.text[:27]) == ("", "2 violations are counted an")


def test_ranks_are_counted_apart() -> None:
    ring = rows({**RECORDS, 4: RECORDS[8]})
    text = log_of(ring, prefix="[TP0] ") + log_of(ring, prefix="[TP1] ", overflow=True)
    [note] = _coverage(text).not_checked()
    assert "the ring of TP1 is full" in note.text


def test_servers_of_two_modes_statistics_and_diverging_pools_are_noted() -> None:
    prefill = OTHER_LINES.replace("disaggregation_mode=decode", "disaggregation_mode=prefill")
    texts = " ".join(note.text for note in _coverage(OTHER_LINES + prefill).notes())
    for words in ("at step 300: 2 violations, 4 of 12", "decode, prefill", "up to 5 indices"):
        assert words in texts


def test_what_is_kept_of_damaged_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_coverage, "_MAX_PROCESSES", 4)
    line = OTHER_LINES.splitlines()[0]
    coverage = _coverage("".join(f"[TP{rank}] {line}\n" for rank in range(50)))
    assert len(coverage.not_checked()) <= 5
