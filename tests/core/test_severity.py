"""The order of weights."""

from __future__ import annotations

from kvaudit.core.severity import Severity


def test_an_error_outweighs_a_warning_and_that_a_note() -> None:
    assert Severity.ERROR.rank > Severity.WARNING.rank > Severity.NOTE.rank
