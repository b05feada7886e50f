from __future__ import annotations

from kvaudit.core.log_report import LogReport
from kvaudit.diagnosis.explain_log import explain_log
from kvaudit.importers.engine_log import read_engine_log
from kvaudit.importers.rule_page import rule_texts
from kvaudit.render.log_report import log_lines
from tests.helpers.engine_logs import OTHER_LINES, RECORDS, T02, log_of, rows


def _report(text: str) -> LogReport:
    return explain_log(read_engine_log([text.encode()]))


def _text(text: str) -> str:
    return "\n".join(line.plain for line in log_lines(_report(text), rule_texts()))


FLIPPED = rows({**RECORDS, 7: (22, 1, RECORDS[7][2] ^ 1)})


def test_a_root_says_what_is_proved_what_it_could_be_and_what_nobody_can_tell() -> None:
    assert _text(log_of(FLIPPED, prefix="[TP1] ")) == (
        "2 rows printed: 1 root\n"
        "\n"
        "slot 7: verify_chain_hash\n"
        "  says         the record differs, and the one behind it was chained to what stood here before\n"
        "  holds        stored position 1, token 22\n"
        "  rows         1 of HEAD_K_FULL · rank TP1 · read at step 7, which is later than the fault\n"
        "  follow       slot 8\n"
        "  proved       it was written as token 22 at position 1, which the slot behind it proves; "
        "1 bit of its prev_hash turned over afterwards\n"
        "  could be     KV208 canary-bit-flip, KV203 late-writer, KV101 slot-alias\n"
        "  cannot tell  who wrote it: another live request (alias) or one that was gone (late writer)\n"
        "  settled by   the slots of all live requests and the allocator's owners\n"
        "\n"
        "next\n"
        "  dump the pool while these requests still run, with the tokens and slots of all requests: "
        "kvaudit.capture.dump, in the engine; where bytes fail, stamped by a "
        "kvaudit.capture.recorder\n"
        "  kvaudit verify DUMP\n"
        "  kvaudit blame SNAPSHOT 7\n"
        "  kvaudit show SNAPSHOT --slot 7,8"
    )


def test_what_was_not_checked_stands_before_the_roots() -> None:
    text = _text(T02 + OTHER_LINES)
    assert (
        text.index("not checked") < text.index("KV002 launch-disabled: ") < text.index("slot 4: ")
    )
    assert text.index("slot 4: ") < text.index("\nalso\n") < text.index("\nnext\n")


def test_a_quiet_log_is_no_clean_one() -> None:
    assert _text(OTHER_LINES).startswith("no violation is printed: that says nothing of")


def test_slots_with_the_same_lines_are_one_group_of_a_pool() -> None:
    shifted = rows({**RECORDS, 8: (23, 5, RECORDS[8][2])})[:1]
    text = "".join(
        log_of(shifted).replace("slot_idx=8", f"slot_idx={slot}") for slot in range(100, 120)
    )
    assert (
        "20 rows printed: 20 roots in 1 group\n\nslots 100-119 (20 slots): verify_position\n"
        in (_text(text))
    )
    window = text.replace("HEAD_K_FULL", "HEAD_K_SWA").replace("head_k_full", "head_k_swa")
    assert "\nwindow slots 100-119 (20 slots): " in _text(window)


def test_past_a_screen_causes_are_counted_and_their_slots_named() -> None:
    text = "".join(
        log_of(rows({**RECORDS, 7: (22, 1, RECORDS[7][2] ^ bits)}))
        .replace("slot_idx=7", f"slot_idx={100 + bits}")
        .replace("slot_idx=8", f"slot_idx={200 + bits}")
        for bits in range(1, 9)
    )
    assert "and 2 more causes: slots " in _text(text)


def test_a_write_says_what_was_given_and_expected() -> None:
    text = (
        "kv_canary violation: launch_tag=HEAD_K_FULL fail_reason=write_token+write_position "
        "slot_idx=9 position=42 stored_token=57 expected_token=58 "
        "stored_chain_hash=0x0000000000000001 expected_aux=0x000000000000002b\n"
    )
    found = _text(text)
    assert "given position 42, token 57, expected token 58, expected position 43" in found
    assert "slot 9: write_token + write_position" in found
