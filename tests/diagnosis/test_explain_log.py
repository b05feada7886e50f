from __future__ import annotations

from kvaudit.core.log_report import LogReport
from kvaudit.diagnosis.explain_log import explain_log
from kvaudit.importers.engine_log import read_engine_log
from tests.helpers.engine_logs import OTHER_LINES, RECORDS, log_of, rows


def _report(text: str) -> LogReport:
    return explain_log(read_engine_log([text.encode()]))


def test_a_bad_slot_is_one_cause_over_256_rows_whatever_repeats_it() -> None:
    """Tags, ranks and steps repeat two rows: a root, and the slot that was chained to it."""
    records = {**RECORDS, 7: (22, 1, RECORDS[7][2] ^ 1)}
    text = "".join(
        log_of(rows(records, tag=tag), prefix=f"[TP{rank}] ", step=step)
        for step in range(16)
        for rank in (0, 1)
        for tag in (0, 1, 2, 3)
    )
    report = _report(text)
    assert report.num_rows == 256
    [cause] = report.causes
    assert (cause.root.slot, cause.root.num_rows) == (7, 128)
    assert [slot.slot for slot in cause.consequences] == [8]
    assert cause.candidates[0] == "KV208"
    assert report.next_steps[1:] == ["kvaudit verify DUMP", "kvaudit show SNAPSHOT --slot 7,8"]


def test_what_the_hashes_rule_out_is_no_candidate() -> None:
    [cause] = _report(log_of(rows({**RECORDS, 4: RECORDS[8]}))).causes
    assert cause.candidates == ["KV203", "KV101"]


def test_lone_broken_chains_come_after_all_others_and_early_steps_first() -> None:
    late = rows({**RECORDS, 8: (23, 5, RECORDS[8][2])})[:1]
    early = rows({**RECORDS, 3: (12, 9, RECORDS[3][2])})[:1]
    lone = rows({**RECORDS, 9: (24, 3, 0x123456789ABCDEF)})
    text = log_of(lone, step=1) + log_of(late, step=9) + log_of(early, step=4)
    assert [cause.root.slot for cause in _report(text).causes] == [3, 8, 9]


def test_window_slots_are_looked_up_in_the_window_pools_file() -> None:
    records = {**RECORDS, 4: RECORDS[8]}
    text = log_of(rows(records, tag=6)) + log_of(rows(records, tag=0))
    assert _report(text).next_steps[2:] == [
        "kvaudit show SNAPSHOT --slot 4,5",
        "kvaudit show SWA_SNAPSHOT --slot 4,5",
    ]


def test_a_call_names_few_slots_however_many_failed() -> None:
    ring = rows({**RECORDS, 7: (22, 1, 1)})
    text = "".join(
        log_of(ring).replace("slot_idx=7", f"slot_idx={slot}") for slot in range(100, 200)
    )
    assert len(_report(text).next_steps[2].split(",")) == 16


def test_a_quiet_log_says_what_to_dump_all_the_same() -> None:
    report = _report(OTHER_LINES)
    assert (report.num_rows, report.causes) == (0, [])
    assert report.lines["swa_divergence"] == 2
    assert report.next_steps[-1] == "kvaudit verify DUMP"
