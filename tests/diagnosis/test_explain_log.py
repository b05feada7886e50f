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
    [root] = cause.roots
    assert (root.slot, root.num_rows, cause.num_rows) == (7, 128, 256)
    assert [slot.slot for slot in cause.consequences] == [8]
    assert cause.candidates[0] == "KV208"
    assert "several ranks" in cause.proved[1]
    assert report.next_steps[1:] == [
        "kvaudit verify DUMP",
        "kvaudit blame SNAPSHOT 7",
        "kvaudit show SNAPSHOT --slot 7,8",
    ]


def test_what_the_hashes_rule_out_is_no_candidate() -> None:
    [cause] = _report(log_of(rows({**RECORDS, 4: RECORDS[8]}))).causes
    assert cause.candidates == ["KV203", "KV101"]


def test_lone_broken_chains_come_after_all_others_and_early_steps_first() -> None:
    late = rows({**RECORDS, 8: (23, 5, RECORDS[8][2])})[:1]
    early = rows({**RECORDS, 3: (12, 9, RECORDS[3][2])})[:1]
    lone = rows({**RECORDS, 9: (24, 3, 0x123456789ABCDEF)})
    text = log_of(lone, step=1) + log_of(late, step=9) + log_of(early, step=4)
    causes = _report(text).causes
    assert [[root.slot for root in cause.roots] for cause in causes] == [[8, 3], [9]]


def test_slots_with_the_same_lines_stand_together_unless_one_is_proved() -> None:
    """T12 and T07: nothing arrived for one request, and two pages of the other changed places."""
    swapped = {2: RECORDS[4], 3: RECORDS[5], 4: RECORDS[2], 5: RECORDS[3]}
    zero = dict.fromkeys((6, 7, 8, 9), (0, 0, 0))
    causes = _report(log_of(rows({**RECORDS, **swapped, **zero}))).causes
    assert [[root.slot for root in cause.roots] for cause in causes] == [
        [6, 7, 8, 9],
        [2, 4],
        [3, 5],
    ]
    assert causes[0].candidates[0] == "KV311"
    twice = {4: RECORDS[8], 7: (22, 1, RECORDS[7][2] ^ 1)}
    causes = _report(log_of(rows({**RECORDS, **twice}))).causes
    assert [[root.slot for root in cause.roots] for cause in causes] == [[4], [7]]


def test_many_roots_are_put_together_in_linear_time() -> None:
    first = log_of(rows({**RECORDS, 8: (23, 5, RECORDS[8][2])})[:1])
    text = "".join(first.replace("slot_idx=8", f"slot_idx={slot}") for slot in range(20_000))
    [cause] = _report(text).causes
    assert len(cause.roots) == 20_000


def test_window_slots_are_looked_up_in_the_window_pools_file() -> None:
    records = {**RECORDS, 4: RECORDS[8]}
    text = log_of(rows(records, tag=6)) + log_of(rows(records, tag=0))
    assert _report(text).next_steps[2:] == [
        "kvaudit blame SNAPSHOT 4",
        "kvaudit show SNAPSHOT --slot 4,5",
        "kvaudit blame SWA_SNAPSHOT 4",
        "kvaudit show SWA_SNAPSHOT --slot 4,5",
    ]


def test_a_call_names_few_slots_however_many_failed() -> None:
    ring = rows({**RECORDS, 7: (22, 1, 1)})
    text = "".join(
        log_of(ring).replace("slot_idx=7", f"slot_idx={slot}") for slot in range(100, 200)
    )
    assert _report(text).next_steps[2] == "kvaudit blame SNAPSHOT 100"
    assert len(_report(text).next_steps[3].split(",")) == 16


def test_a_quiet_log_says_what_to_dump_all_the_same() -> None:
    report = _report(OTHER_LINES)
    assert (report.num_rows, report.causes) == (0, [])
    assert report.lines["swa_divergence"] == 2
    assert report.next_steps[-1] == "kvaudit verify DUMP"
