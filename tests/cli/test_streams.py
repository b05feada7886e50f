"""The streams in processes of their own: `test_entry.py` starts those with closed and full ones."""

from __future__ import annotations

import errno
import io
import sys

import pytest

from kvaudit.cli.streams import secure_streams, write_errors_translated
from kvaudit.errors import FileUnwritable
from tests.helpers.command_line import python

SECURED = "import sys\nfrom kvaudit.cli.streams import secure_streams\nsecure_streams()\n"


def test_a_refusal_names_the_file_and_what_to_do() -> None:
    with pytest.raises(FileUnwritable) as raised, write_errors_translated("report"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(raised.value) == "report: no space left on device"
    assert raised.value.hint


def test_a_closed_pipe_is_no_refusal() -> None:
    with pytest.raises(BrokenPipeError), write_errors_translated("report"):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_streams_that_a_program_put_in_place_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    secure_streams()
    assert sys.stdout is stream


def test_no_character_can_fail_to_be_encoded() -> None:
    """A request id with a lone surrogate, and a terminal that knows ASCII alone."""
    code = SECURED + "print('a · \\udcff')\nprint('b · ', file=sys.stderr)"
    done = python("-c", code, PYTHONIOENCODING="ascii")
    assert done.stdout == "a \\xb7 \\udcff\n"
    assert done.stderr == "b \\xb7 \n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_buffering_stays_as_it_was_asked_for(unbuffered: str) -> None:
    done = python("-c", SECURED + "print(sys.stdout.write_through)", PYTHONUNBUFFERED=unbuffered)
    assert done.stdout == f"{bool(unbuffered)}\n"
