"""How much a finding weighs. Standard library only: the help page shows it."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How much a finding weighs against `--fail-on`."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Order of weight: note 0, warning 1, error 2."""
        return list(Severity).index(self)
