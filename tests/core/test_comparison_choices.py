from __future__ import annotations

from kvaudit.core.comparison_choices import LETTERS, ComparedContent, MatchBy


def test_the_choices_are_the_words_of_the_command_line() -> None:
    assert [*MatchBy] == ["auto", "content", "request", "slot"]
    assert [*ComparedContent] == ["both", "digests", "bytes"]


def test_three_dumps_at_most_have_a_letter() -> None:
    assert list(LETTERS) == ["A", "B", "C"]
