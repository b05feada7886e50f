from __future__ import annotations

import pytest

from kvaudit.render.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text é 漢 ·", "plain text é 漢 ·"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202e", "\\u202e"),
        ("\udcff", "\\udcff"),
        ("\x9b31m", "\\x9b31m"),
    ],
)
def test_controls_are_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert printable(text) == shown
