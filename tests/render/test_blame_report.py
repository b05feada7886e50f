from __future__ import annotations

from dataclasses import replace

from kvaudit.constants import CHAIN_ANCHOR, FailReason
from kvaudit.core.blame_report import BlameReport, RelatedFinding, Relation
from kvaudit.core.slot_readers import SlotReader
from kvaudit.render.blame_report import MAX_CLAIMS, MAX_OTHERS, MAX_ROWS, MAX_SLOTS, blame_lines
from tests.helpers.slot_reports import CLAIM, DAMAGED, FLIP, RECORD, ROW, WRITER, finding
from tests.helpers.vocabulary import Vocabulary


def _text(report: BlameReport) -> str:
    return "\n".join(text.plain for text in blame_lines(report, call="kvaudit blame F"))


def _section(report: BlameReport, title: str) -> list[str]:
    [found] = [part for part in _text(report).split("\n\n") if part.startswith(title)]
    return found.split("\n")[1:]


def test_one_screen_says_what_is_wrong_then_whose_it_is_then_what_it_holds() -> None:
    assert _text(DAMAGED) == (
        "slot 4103 (page 256 +7)  2 rows failed · KV304 kv-bit-flip · read by A@7\n"
        "\n"
        "not compared\n"
        "  content was searched for in 1 of 4 columns\n"
        "\n"
        "findings\n"
        "  error  KV304 kv-bit-flip: what kv-bit-flip says\n"
        "      slots     4103 (1 slot)\n"
        "      requests  A\n"
        "  KV203 late-writer taints a request that reads it: what late-writer says\n"
        "\n"
        "failed  2 rows\n"
        "  TAIL_K_FULL  A  verify_real_kv_hash  stored 0x0000000000000001"
        "  expected 0x0000000000000002\n"
        "  bytes        A  column_digest        layer 1                    kv.k.1\n"
        "\n"
        "expected  1 claim on the slot\n"
        "  A@7  sequences, running  token 13  position 7  behind slot 4102 (page 256 +6)\n"
        "\n"
        "records\n"
        "  k.tail  token 13  position 7  prev_hash 0x000000000000007b"
        "  real_kv_hash 0x0000000000000001, not 0x0000000000000002\n"
        "\n"
        "bytes  1 of 4 stamped columns differs\n"
        "  kv.k.1  stamped 0x0000000000000006  recomputed 0x0000000000000007  zero from byte 64 on\n"
        "  as stamped  3 columns  layers 0-1  kv.k.0 kv.v.0-1\n"
        "\n"
        "words\n"
        "  kv.k.1: beside slot 33 (page 2 +1), which holds what was stamped here: "
        "1 of 16 words differs\n"
        "    byte 8  holds 01 00 00 00 00 00 00 00  was 01 03 00 00 00 00 00 00  2 bits\n"
        "\n"
        "same content  1 slot of those searched\n"
        "  slot 33 (page 2 +1)  B@1  the same record in k.tail; "
        "holds the same in 1 of 4 columns (kv.k.0); "
        "holds what was stamped in this slot in 1 of 4 columns (kv.k.1)\n"
        "\n"
        "neighbours\n"
        "  slot 4102 (page 256 +6)  A@6             token 12 at position 6"
        "  previous slot, expected before it\n"
        "  slot 4104 (page 256 +8)  read by nobody  no record               next slot\n"
        "\n"
        "allocator and engine\n"
        "  alloc.owner  A\n"
        "  alloc.ref    1\n"
        "\n"
        "next\n"
        "  kvaudit blame F 33\n"
        "  kvaudit explain KV304"
    )


def test_what_follows_from_another_slot_leads_there() -> None:
    related = [RelatedFinding(relation=Relation.BEFORE, finding=WRITER)]
    report = replace(DAMAGED, findings=related, copies=[])
    first, *_ = _text(report).split("\n")
    assert first.endswith("2 rows failed · follows from KV203 late-writer · read by A@7")
    assert _section(report, "next") == ["  kvaudit blame F 4090", "  kvaudit explain KV203"]


def test_a_slot_before_is_asked_for_by_its_number_and_none_outside_the_pool() -> None:
    wild = finding("KV102", "slot-out-of-range", slots=(-5, 4102, 9000))
    related = [RelatedFinding(relation=Relation.BEFORE, finding=wild)]
    report = replace(DAMAGED, findings=related, copies=[])
    assert _section(report, "next")[0] == "  kvaudit blame F 4102"
    outside = replace(CLAIM, prev_slot=9000)
    lost = replace(
        report,
        claims=[outside],
        findings=[replace(related[0], finding=replace(wild, slots=(-5, 9000)))],
    )
    assert _section(lost, "next") == ["  kvaudit explain KV102"]
    assert "behind slot 9000 (outside the pool)" in _text(lost)


def test_a_sound_slot_of_a_tainted_request_leads_to_what_taints_it() -> None:
    related = [RelatedFinding(relation=Relation.TAINTS, finding=WRITER)]
    report = replace(DAMAGED, violations=[], findings=related)
    assert _text(report).startswith("slot 4103 (page 256 +7)  no row failed · read by A@7\n")
    assert _section(report, "next") == ["  kvaudit blame F 4090"]


def test_rows_that_no_rule_explains_say_so() -> None:
    assert _section(replace(DAMAGED, findings=[]), "findings") == [
        "  no rule explains the rows that failed here"
    ]
    assert "no rule explains" not in _text(DAMAGED)
    assert "findings" not in _text(replace(DAMAGED, findings=[], violations=[]))


def test_a_slot_of_which_little_is_known_has_short_sections() -> None:
    bare = BlameReport(
        path="a",
        key=DAMAGED.key,
        page_size=16,
        num_slots=16,
        slot=5,
        has_expectations=False,
        backend=DAMAGED.backend,
        self_check="passed",
        timing=DAMAGED.timing,
    )
    assert _text(bare) == "slot 5 (page 0 +5)  no row failed"


def test_claims_that_are_not_judged_say_why() -> None:
    ahead = replace(CLAIM, prev_slot=None, not_judged="at or past kv_len 7: no KV of it is written")
    disabled = replace(CLAIM, token=-1, not_judged="its plan is disabled")
    report = replace(DAMAGED, claims=[CLAIM, ahead, disabled], num_claims=3)
    lines = _section(report, "expected")
    assert lines[1].endswith("not judged: at or past kv_len 7: no KV of it is written")
    assert "any token" in lines[2]
    assert lines[2].endswith("not judged: its plan is disabled")


def test_a_head_an_unreachable_slot_and_a_zero_record_are_named() -> None:
    head = replace(CLAIM, prev_slot=None, is_head=True)
    midway = replace(CLAIM, prev_slot=None)
    zero = replace(RECORD, token=0, position=0, prev_hash=0, real_kv_hash=0)
    anchor = replace(RECORD, prev_hash=CHAIN_ANCHOR, expected_real_kv_hash=None)
    report = replace(DAMAGED, claims=[head, midway], num_claims=2, records=[zero, anchor])
    assert [line.rstrip().rpartition("  ")[2] for line in _section(report, "expected")] == [
        "at the head of a chain",
        "behind a slot that is not reachable",
    ]
    assert _section(report, "records") == [
        "  k.tail  zero: no record",
        (
            "  k.tail  token 13         position 7  prev_hash 0xde7fae23a9a1b716 (a head)"
            "  real_kv_hash 0x0000000000000001"
        ),
    ]


def test_long_lists_are_cut_and_counted() -> None:
    claims = [
        replace(CLAIM, reader=SlotReader(request_id=f"r{number}", position=7))
        for number in range(20)
    ]
    others = [
        RelatedFinding(relation=Relation.TAINTS, finding=finding("KV203", "x", slots=(number,)))
        for number in range(10)
    ]
    report = replace(
        DAMAGED, claims=claims, num_claims=5000, violations=[ROW] * 40, findings=others
    )
    text = _text(report)
    assert text.startswith(
        "slot 4103 (page 256 +7)  40 rows failed · read by r0@7, r1@7, r2@7, r3@7 and 16 more"
    )
    expected = _section(report, "expected  5,000 claims")
    assert (len(expected), expected[-1]) == (MAX_CLAIMS + 1, "  and 4,992 more")
    assert len(_section(report, f"failed  {MAX_ROWS} of 40 rows shown")) == MAX_ROWS
    assert _section(report, "findings")[MAX_OTHERS] == "  and 6 more"
    sound = replace(report, violations=[])
    assert len(_section(sound, "next")) == MAX_SLOTS


def test_a_row_that_compares_nothing_shows_its_reason() -> None:
    row = replace(ROW, reasons=FailReason.PREV_SLOT_OUT_OF_RANGE)
    assert _section(replace(DAMAGED, violations=[row]), "failed") == [
        "  TAIL_K_FULL  A  prev_slot_out_of_range  the predecessor is outside the pool"
    ]


def test_tokens_have_their_words_where_a_tokenizer_says_them() -> None:
    row = replace(ROW, token=7042, expected_token=262, reasons=FailReason.VERIFY_TOKEN_MISMATCH)
    neighbour = replace(DAMAGED.neighbours[0], token=314)
    report = replace(
        DAMAGED,
        violations=[row],
        claims=[replace(CLAIM, token=262)],
        records=[replace(RECORD, token=7042)],
        neighbours=[neighbour],
    )
    text = "\n".join(
        line.plain for line in blame_lines(report, call="kvaudit blame F", words=Vocabulary())
    )
    assert "stored 7042 ' Paris'  expected 262 ' the'" in text
    assert "A@7  sequences, running  token 262 ' the'  position 7" in text
    assert "k.tail  token 7042 ' Paris'  position 7" in text
    assert "token 314 ' is' at position 6" in text
    assert "Paris" not in _text(report)


def test_words_from_files_cannot_drive_a_terminal() -> None:
    evil = replace(CLAIM, reader=SlotReader(request_id="\x1b[31m", position=1))
    report = replace(
        DAMAGED,
        claims=[evil],
        evidence={"alloc.owner": "\x1b[0m"},
        findings=[
            RelatedFinding(relation=Relation.TAINTS, finding=replace(FLIP, summary="\x1b[2J"))
        ],
        violations=[replace(ROW, request_ids=("\x1b",))],
    )
    assert "\x1b" not in _text(report)
