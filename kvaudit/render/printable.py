"""Text from files and errors, made safe for a terminal. Imports nothing, so that errors are quick."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text without anything a terminal would obey: controls become escapes such as `\x1b`."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
