"""What is wrong with a path before the system is asked for it."""

from __future__ import annotations

from kvaudit.errors import FileUnreadable


def refuse_empty(path: str) -> None:
    """Refuse a path of no letters, which the system takes for the current folder.

    Raises:
        FileUnreadable: it is one.
    """
    if not path:
        raise FileUnreadable("a path is empty", hint="give a file or a folder")
