from __future__ import annotations

from dataclasses import replace

from kvaudit.core.slot_facts import ByteComparison, ColumnDigests, ContentCopy, WordDifference
from kvaudit.render.blame_content import (
    MAX_COLUMNS,
    MAX_COMPARED,
    MAX_COPIES,
    MAX_WORDS,
    column_lines,
    copy_lines,
    word_lines,
)
from tests.helpers.slot_reports import DAMAGED

UNKNOWN = ByteComparison(
    column="kv.k.0",
    other_slot=None,
    says="not known",
    num_words=2,
    words=[
        WordDifference(byte=0, holds=255, other=None),
        WordDifference(byte=8, holds=1, other=None),
    ],
)


def _columns(*columns: ColumnDigests) -> list[str]:
    return [line.plain for line in column_lines(replace(DAMAGED, columns=columns))]


def _words(*comparisons: ByteComparison) -> list[str]:
    return [line.plain for line in word_lines(replace(DAMAGED, comparisons=comparisons))]


def test_columns_that_are_not_wrong_are_told_by_what_is_known_of_them() -> None:
    assert _columns(
        ColumnDigests(name="kv.k.0", stamped=1, dumped=1),
        ColumnDigests(name="kv.v.0", recomputed=2),
        ColumnDigests(name="kv.k.1", stamped=3),
        ColumnDigests(name="kv.v.1", stamped=0, recomputed=0, pattern="all zero"),
    ) == [
        "bytes  0 of 2 stamped columns differ",
        "  as stamped                    kv.k.0  dumped 0x0000000000000001",
        "  not stamped                   kv.v.0  recomputed 0x0000000000000002",
        "  stamped, and not in the file  kv.k.1",
        "  as stamped, all zero          kv.v.1  recomputed 0x0000000000000000",
    ]


def test_a_column_that_is_solved_for_says_under_which_condition() -> None:
    assert _columns(ColumnDigests(name="kv.k.0", solved=1, recomputed=2)) == [
        "bytes  1 column, none of them stamped",
        "  kv.k.0  solved 0x0000000000000001, if it alone changed  recomputed 0x0000000000000002",
    ]


def test_a_column_that_is_solved_for_in_part_says_of_which_bytes() -> None:
    column = ColumnDigests(name="kv.k.0", solved=1, solved_bytes=16, recomputed=2)
    assert "of its first 16 bytes, if it alone changed" in _columns(column)[1]


def test_many_columns_that_differ_are_counted() -> None:
    columns = [ColumnDigests(name=f"kv.k.{n}", stamped=1, recomputed=2) for n in range(30)]
    lines = _columns(*columns)
    assert lines[0] == "bytes  30 of 30 stamped columns differ"
    assert (len(lines), lines[-1]) == (MAX_COLUMNS + 2, "  and 22 more")


def test_a_dump_without_columns_has_no_section() -> None:
    assert _columns() == []
    assert _words() == []
    assert copy_lines(replace(DAMAGED, copies=[])) == []


def test_columns_of_which_as_little_is_known_stand_together() -> None:
    assert _words(UNKNOWN, replace(UNKNOWN, column="kv.v.0")) == [
        "words",
        "  kv.k.0, kv.v.0: not known",
        "    kv.k.0  byte 0  holds ff 00 00 00 00 00 00 00",
        "    kv.v.0  byte 0  holds ff 00 00 00 00 00 00 00",
    ]


def test_a_digest_alone_has_no_word() -> None:
    assert _words(replace(UNKNOWN, num_words=None, words=())) == ["words", "  kv.k.0: not known"]


def test_words_and_columns_past_the_screen_are_counted_or_named() -> None:
    words = [WordDifference(byte=8 * n, holds=n, other=n + 1) for n in range(8)]
    wrong = [
        replace(UNKNOWN, column=f"kv.k.{n}", num_differing=12, num_words=16, words=words)
        for n in range(5)
    ]
    lines = _words(*wrong)
    assert lines[1] == "  kv.k.0: not known: 12 of 16 words differ"
    assert (len(lines), lines[-1]) == (
        1 + MAX_COMPARED * (1 + MAX_WORDS) + 1,
        "  and in kv.k.3, kv.k.4",
    )


def test_those_that_share_less_are_counted_where_some_share_most() -> None:
    close = ContentCopy(slot=4, same_columns=("kv.k.0", "kv.v.0"))
    record = ContentCopy(slot=5, same_records=("k.tail",))
    token = ContentCopy(slot=6, same_columns=("kv.v.0",))
    report = replace(DAMAGED, copies=[close, record, token], num_copies=9)
    lines = [line.plain for line in copy_lines(report)]
    assert [line.split(" (")[0] for line in lines[1:-1]] == ["  slot 4", "  slot 5"]
    assert lines[-1] == "  and 7 more that share less"
    alone = [line.plain for line in copy_lines(replace(report, copies=[token], num_copies=1))]
    assert len(alone) == 2


def test_what_holds_the_same_need_not_say_that_it_was_stamped_so() -> None:
    copy = ContentCopy(
        slot=4, same_columns=("kv.k.0",), stamped_columns=("kv.k.0", "kv.v.0"), same_records=()
    )
    [_, line] = copy_lines(replace(DAMAGED, copies=[copy], num_copies=1))
    assert line.plain.endswith(
        "holds the same in 1 of 4 columns (kv.k.0); "
        "was stamped with what this slot holds in 1 of 4 columns (kv.v.0)"
    )


def test_many_copies_are_counted_and_each_says_what_it_shares() -> None:
    copies = [ContentCopy(slot=n, stamped_columns=("kv.k.0", "kv.k.1")) for n in range(16)]
    lines = [line.plain for line in copy_lines(replace(DAMAGED, copies=copies, num_copies=1200))]
    assert lines[0] == "same content  1,200 slots of those searched"
    assert lines[1] == (
        "  slot 0 (page 0 +0)  read by nobody  "
        "was stamped with what this slot holds in 2 of 4 columns (kv.k.0-1)"
    )
    assert (len(lines), lines[-1]) == (MAX_COPIES + 2, "  and 1,194 more")
